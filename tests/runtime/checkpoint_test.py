"""Checkpoints: exact bits, damage detected, SIGKILL survived."""

import contextlib
import itertools
import logging as python_logging
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from agentrl.runtime import checkpoint, leaves
from tests import errors

REPOSITORY = pathlib.Path(__file__).parent.parent.parent


def make_state(seed: int = 0):
  key = jax.random.key(seed)
  return {
    'params': {
      'w': jax.random.normal(key, (8, 4)),
      'half': jax.random.normal(key, (5,)).astype(jnp.bfloat16),
      'odd': jnp.array([jnp.nan, -0.0, jnp.inf, 1e-42], jnp.float32),
    },
    'opt': (jnp.int32(seed), [jnp.arange(3) > 1, jnp.zeros((0, 2))]),
    'key': key,
    'keys': jax.random.split(jax.random.key(1, impl='rbg'), 3),
  }


def abstract(tree):
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree
  )


def bits(x: jax.Array) -> bytes:
  if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
    x = jax.random.key_data(x)
  return np.asarray(x).tobytes()


def assert_same(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    assert (x.shape, x.dtype, bits(x)) == (y.shape, y.dtype, bits(y))


def files(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(p for p in folder.rglob('*') if p.is_file())


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """A folder with steps 3 and 7, of seeds 3 and 7."""
  folder = tmp_path_factory.mktemp('saved') / 'checkpoints'
  with opened(folder) as checkpoints:
    for step in (3, 7):
      checkpoints.save(step, make_state(step), {'step': step})
  return folder


@pytest.fixture
def two(saved, tmp_path):
  """A copy of them."""
  return shutil.copytree(saved, tmp_path / 'checkpoints')


def opened(folder, **how):
  return contextlib.closing(checkpoint.Checkpoints(folder, **how))


def steps_of(folder) -> list[int]:
  """Numbers of what is sealed."""
  names = [p.parent.name for p in folder.glob('*/manifest.json')]
  return sorted(int(x) for x in names if x.isdecimal())


def load(folder):
  with opened(folder) as checkpoints:
    return checkpoints.latest(abstract(make_state()))


def test_nothing_saved_is_none_and_makes_no_folder(tmp_path):
  assert load(tmp_path / 'new') is None
  assert not (tmp_path / 'new').exists()


def test_exact_bits_and_meta_come_back(tmp_path):
  meta = {'cursor': 2**70, 'rate': 0.1, 'names': ['a', None], 'deep': {'x': 1}}
  with opened(tmp_path) as checkpoints:
    checkpoints.save(5, make_state(), meta)
    step, state, got = checkpoints.latest(abstract(make_state()))
  assert (step, got) == (5, meta)
  assert_same(state, make_state())
  assert str(jax.random.key_impl(state['keys'])) == 'rbg'
  after = jax.random.bits(state['key'], (4,))
  assert (after == jax.random.bits(make_state()['key'], (4,))).all()


@pytest.mark.filterwarnings('ignore:Sharding info not provided')
def test_the_next_orbax_reads_what_this_one_wrote(saved):
  """Its interface v1 is to become the package's; the files need not change."""
  from orbax.checkpoint import v1

  arrays = leaves.storable(leaves.named(make_state(7)))
  read = v1.load(str(saved / '7'))
  assert read.keys() == arrays.keys()
  for name, x in arrays.items():
    assert (read[name].shape, bits(read[name])) == (x.shape, bits(x))


@pytest.mark.parametrize('kind', ['Auto', 'Explicit'])
def test_restores_onto_another_mesh(tmp_path, kind):
  types = (jax.sharding.AxisType[kind],) * 2
  before = jax.make_mesh((2, 4), ('data', 'model'), axis_types=types)
  after = jax.make_mesh((4, 2), ('data', 'model'), axis_types=types)

  def place(mesh, spec):
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    keys = jax.random.split(jax.random.key(2), 4)
    return {
      'w': jax.device_put(value, NamedSharding(mesh, spec)),
      'keys': jax.device_put(keys, NamedSharding(mesh, P('model'))),
      'none': jax.device_put(np.zeros((0, 8)), NamedSharding(mesh, P())),
    }

  wanted = place(after, P('model', 'data'))
  with opened(tmp_path) as checkpoints:
    checkpoints.save(1, place(before, P('data', 'model')), {})
    _, state, _ = checkpoints.latest(abstract(wanted))
  assert_same(state, wanted)
  for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(wanted), strict=True):
    assert x.sharding == y.sharding


def test_the_newest_are_kept_and_old_ones_stand_until_they_are_complete(
  two, monkeypatch
):
  seen, sealing = [], checkpoint.Checkpoints._seal

  def seal(self, step):
    seen.append(steps_of(two))
    sealing(self, step)

  monkeypatch.setattr(checkpoint.Checkpoints, '_seal', seal)
  with opened(two) as checkpoints:
    for step in (9, 10):
      checkpoints.save(step, make_state(step), {})
  assert seen == [[3, 7], [7, 9]]
  assert sorted(p.name for p in two.iterdir()) == ['10', '9']


def test_any_damaged_file_is_noticed_and_the_one_before_used(two, caplog):
  for file in files(two / '7'):
    whole = file.read_bytes()
    flipped = bytes([whole[0] ^ 1]) + whole[1:] if whole else b'x'
    for broken in (None, whole[: len(whole) // 2], flipped):
      if broken is None:
        file.unlink()
      else:
        file.write_bytes(broken)
      caplog.clear()
      with caplog.at_level(python_logging.WARNING, logger='absl'):
        step, state, meta = load(two)
      assert (step, meta) == (3, {'step': 3}), file
      told = [r for r in caplog.records if 'not readable' in r.message]
      assert len(told) == 1
      assert 'step 7' in told[0].message
      assert 'step 3 is used' in told[0].message
      file.write_bytes(whole)
  assert_same(state, make_state(3))
  assert load(two)[0] == 7


def test_none_readable_raises_with_path_and_fix(two):
  for step in ('3', '7'):
    (two / step / 'manifest.json').unlink()
  with errors.raises(ValueError, 'manifest.json') as e:
    load(two)
  assert str(two) in str(e.value)
  errors.check(str(e.value), '--workdir')


def test_what_is_damaged_does_not_count_and_is_kept_beside(two, caplog):
  whole = files(two / '7')[0].read_bytes()
  files(two / '7')[0].write_bytes(whole + b'x')
  shutil.copytree(two / '3', two / '9')  # an old one under a higher number
  with opened(two) as checkpoints:
    with caplog.at_level(python_logging.WARNING, logger='absl'):
      assert checkpoints.latest(abstract(make_state()))[0] == 3
    assert 'step 9 (its manifest.json is of step 3)' in caplog.text
    for step, left in (8, [3, 8]), (9, [8, 9]):
      checkpoints.save(step, make_state(10 * step), {})
      checkpoints.wait()
      assert steps_of(two) == left
    step, state, _ = checkpoints.latest(abstract(make_state()))
  assert step == 9
  assert_same(state, make_state(90))
  assert aside(two) == ['7.damaged.1', '9.damaged.1']
  assert files(two / '7.damaged.1')[0].read_bytes() == whole + b'x'


def aside(folder) -> list[str]:
  return sorted(p.name for p in folder.iterdir() if '.damaged.' in p.name)


def test_saving_backwards_is_refused_and_keeps_what_is_there(two):
  with opened(two) as checkpoints:
    for step in (2, 7):
      with errors.raises(ValueError, f'{step}'):
        checkpoints.save(step, make_state(), {})
  assert load(two)[0] == 7


@pytest.mark.parametrize(
  ('change', 'told'),
  [
    (lambda x: x.update(w=jnp.zeros((8, 6))), 'params/w float32 8 4 6'),
    (lambda x: x.update(half=jnp.zeros(5)), 'params/half bfloat16 5 float32'),
    (lambda x: x.update(v=jnp.zeros(2)), 'params/v float32 2'),
    (lambda x: x.pop('odd'), 'params/odd float32 4'),
    (lambda x: x.update(w=jax.random.key(0)), 'params/w key'),
  ],
)
def test_another_model_names_the_leaf_and_the_fix(two, change, told):
  wanted = make_state()
  change(wanted['params'])
  with errors.raises(ValueError, told) as e, opened(two) as checkpoints:
    checkpoints.latest(abstract(wanted))
  errors.check(str(e.value), f'--workdir {two.parent}')
  assert '\n' not in str(e.value)


def test_another_kind_of_key_is_another_model(two):
  wanted = make_state() | {'key': jax.random.key(0, impl='rbg')}
  with errors.raises(ValueError, 'key'), opened(two) as checkpoints:
    checkpoints.latest(abstract(wanted))


@pytest.mark.parametrize(
  ('state', 'meta', 'told'),
  [
    ({'n': 3}, {}, 'n'),
    ({'n': np.ones(2)}, {}, 'n'),
    ({'n': jnp.ones(2)}, {'t': (1, 2)}, 'meta t 1 2'),
    ({'n': jnp.ones(2)}, {1: 2}, 'meta 1 =2'),
    ({'n': jnp.ones(2)}, {'t': np.int64(1)}, 'JSON'),
    ({'a/b': jnp.ones(2), 'a': {'b': jnp.ones(2)}}, {}, 'a/b'),
  ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, state, meta, told):
  with errors.raises(ValueError, told):
    checkpoint.Checkpoints(tmp_path / 'c').save(1, state, meta)
  assert not (tmp_path / 'c').exists()


def test_bad_arguments_are_refused(tmp_path):
  with errors.raises(ValueError, 'keep 0'):
    checkpoint.Checkpoints(tmp_path, keep=0)
  no_sharding = {'x': jax.ShapeDtypeStruct((2,), 'float32')}
  with opened(tmp_path) as checkpoints:
    checkpoints.save(1, {'x': jnp.ones(2)}, {})
    with errors.raises(ValueError, 'x'):
      checkpoints.latest(no_sharding)


def test_a_first_save_cut_short_starts_anew_and_says_so(tmp_path, caplog):
  with opened(tmp_path) as checkpoints:
    checkpoints.save(1, make_state(), {})
    checkpoints.wait()
    (tmp_path / '1' / 'manifest.json').unlink()
    (tmp_path / 'saving').write_text('1')  # as a kill before sealing leaves it
    with caplog.at_level(python_logging.WARNING, logger='absl'):
      assert checkpoints.latest(abstract(make_state())) is None
    assert 'step 1 (its save was cut short)' in caplog.text
    checkpoints.save(1, make_state(1), {})
    assert checkpoints.latest(abstract(make_state()))[0] == 1


SAVER = """
import sys
import threading
import jax, jax.numpy as jnp
from agentrl.runtime import checkpoint
like = {'x': jnp.zeros(3000), 'key': jax.random.key(0)}
checkpoints = checkpoint.Checkpoints(sys.argv[1], keep=1)
found = checkpoints.latest(like)
step = found[0] if found else 0
assert found is None or float(found[1]['x'][7]) == step == found[2]['step']
print('from', step, flush=True)
while True:
  step += 1
  state = {'x': jnp.full(3000, float(step)), 'key': jax.random.key(step)}
  checkpoints.save(step, state, {'step': step})
  checkpoints.wait()
  print('saved', step, flush=True)
"""


def kill_a_saver(folder, after_line: int, delay: float) -> list[str]:
  """Runs SAVER, kills it `delay` s after a line; what it had printed."""
  env = os.environ | {'PYTHONPATH': str(REPOSITORY), 'XLA_FLAGS': ''}
  with subprocess.Popen(
    [sys.executable, '-c', SAVER, str(folder)],
    env=env,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  ) as saver:
    lines = [saver.stdout.readline() for _ in range(after_line)]
    try:
      saver.wait(timeout=delay)
    except subprocess.TimeoutExpired:
      saver.send_signal(signal.SIGKILL)
    out, err = saver.communicate()
  assert saver.returncode == -signal.SIGKILL, err
  return (''.join(lines) + out).split('\n')


@pytest.mark.slow
def test_sigkill_at_any_moment_leaves_a_readable_folder(tmp_path):
  draw = random.Random(0)
  done = 0
  for _ in range(3):
    said = kill_a_saver(tmp_path, draw.randint(1, 3), draw.random() * 0.06)
    start = int(said[0].split()[1])
    assert start in (done, done + 1)  # a save may finish before it is told
    done = max([start, *(int(s.split()[1]) for s in said[1:] if s)])
  assert done > 0


def test_killed_at_every_stage_of_a_save(two):
  """The states a kill can leave on disk, one by one, without a clock."""
  with opened(two) as checkpoints:
    checkpoints.save(9, make_state(9), {'step': 9})
  (two / 'saving').write_text('9')
  assert load(two)[0] == 9  # sealed, the mark not yet removed
  (two / '9' / 'manifest.json').unlink()
  assert load(two)[0] == 7  # orbax done, not sealed
  (two / '9').rename(two / '9.orbax-checkpoint-tmp')
  assert load(two)[0] == 7  # orbax still writing
  shutil.rmtree(two / '9.orbax-checkpoint-tmp' / 'state')
  with opened(two) as again:
    assert again.latest(abstract(make_state()))[0] == 7
    again.save(8, make_state(8), {})
  assert sorted(p.name for p in two.iterdir()) == ['7', '8']


def test_a_manifest_that_vouches_for_nothing_is_damage(two):
  manifest = two / '7' / 'manifest.json'
  for text in (
    *('', 'null', '[]', '{}', '"x"', '[' * 10**5),
    *('{"step": 7}', '{"step": 7, "files": {}}'),
    '{"step": 3, "files": {"meta/metadata": [1, ""]}}',
  ):
    manifest.write_text(text)
    assert load(two)[0] == 3
    assert manifest.exists()  # looking changes nothing
  manifest.unlink()
  os.mkfifo(manifest)  # which is not waited for
  assert load(two)[0] == 3


@pytest.mark.parametrize(
  'text', ['', 'x', '-1', '\0' * 9, '9' * 99, 'folder', 'pipe']
)
def test_a_damaged_mark_stops_nothing(two, text):
  mark = two / 'saving'
  if text == 'folder':
    (mark / 'mine').mkdir(parents=True)
  elif text == 'pipe':
    os.mkfifo(mark)
  else:
    mark.write_text(text)
  with opened(two) as checkpoints:
    assert checkpoints.latest(abstract(make_state()))[0] == 7
    checkpoints.save(8, make_state(8), {})
  assert load(two)[0] == 8
  assert not mark.exists()
  if text == 'folder':
    assert (two / 'saving.damaged.1' / 'mine').exists()


def test_files_in_place_of_folders(two):
  """Numbers that are files, or written otherwise, are no steps."""
  for name in ('8', '007', '10.orbax-checkpoint-tmp'):
    (two / name).write_text('mine')
  with opened(two) as checkpoints:
    assert checkpoints.latest(abstract(make_state()))[0] == 7
    checkpoints.save(8, make_state(8), {})
  assert load(two)[0] == 8
  assert aside(two) == ['8.damaged.1']


def test_a_file_in_place_of_all_of_them_is_named(tmp_path):
  (tmp_path / 'checkpoints').write_text('')
  with pytest.raises(ValueError):
    load(tmp_path / 'checkpoints')


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
  checkpoints = checkpoint.Checkpoints(tmp_path / 'run' / 'checkpoints')
  with pytest.raises(FileNotFoundError):
    checkpoints.save(1, make_state(), {})
  assert not (tmp_path / 'run').exists()


def test_a_step_does_not_wait_for_the_seal_and_may_donate(
  tmp_path, monkeypatch
):
  """What is being written, and what was restored."""
  go_on, sealing = threading.Event(), checkpoint.Checkpoints._seal

  def seal(self, step):
    assert go_on.wait(60)
    sealing(self, step)

  monkeypatch.setattr(checkpoint.Checkpoints, '_seal', seal)
  bump = jax.jit(lambda t: jax.tree.map(jnp.negative, t), donate_argnums=0)
  state = {'w': jnp.arange(100_000.0), 'n': jnp.int32(7)}
  with opened(tmp_path) as checkpoints:
    for step, sign in (1, 1), (2, -1):
      go_on.clear()
      checkpoints.save(step, state, {})
      assert not (tmp_path / str(step) / 'manifest.json').exists()
      state = bump(state)
      go_on.set()
      found, back, _ = checkpoints.latest(abstract(state))
      assert (found, int(back['n'])) == (step, 7 * sign)
      assert float(back['w'][9]) == 9 * sign
      assert_same(bump(back), state)


def test_a_clock_that_jumps_stops_no_save(tmp_path, monkeypatch):
  """Each reading is weeks later: a suspended machine, a clock set anew."""
  weeks, clock = itertools.count(), time.time
  jumping = lambda: clock() + next(weeks) * 7 * 24 * 3600  # noqa: E731
  with opened(tmp_path) as checkpoints:
    with monkeypatch.context() as patch:
      patch.setattr(time, 'time', jumping)
      checkpoints.save(1, make_state(1), {})
      checkpoints.wait()
    assert next(weeks) > 2  # orbax does ask for it
    step, state, _ = checkpoints.latest(abstract(make_state()))
  assert step == 1
  assert_same(state, make_state(1))


def test_what_fails_in_the_background_is_raised_once(tmp_path):
  calls = []

  def check():
    calls.append(1)
    if len(calls) == 2:  # before the seal
      raise OSError('the folder is taken')

  checkpoints = checkpoint.Checkpoints(tmp_path, check=check)
  checkpoints.save(1, {'x': jnp.ones(2)}, {})
  with pytest.raises(OSError):
    checkpoints.save(2, {'x': jnp.ones(2)}, {})
  assert not (tmp_path / '1' / 'manifest.json').exists()
  checkpoints.save(2, {'x': jnp.ones(2)}, {})
  checkpoints.close()
  assert steps_of(tmp_path) == [2]


class Failing:
  """A write that fails, after what it waits for."""

  def __init__(self, wait):
    self._wait = wait

  def result(self):
    self._wait()
    raise RuntimeError('NOT_FOUND')


def test_of_several_writes_that_fail_one_is_raised(tmp_path, monkeypatch):
  """Orbax waits for none after the first, and raises the next at its close."""
  folder, late = tmp_path / 'run' / 'checkpoints', []
  folder.parent.mkdir()
  checkpoints = checkpoint.Checkpoints(folder)
  orbax = checkpoints._orbax

  def remake():  # as tensorstore does
    (folder / '1.orbax-checkpoint-tmp' / 'state').mkdir(parents=True)
    late.append(1)

  faults = [OSError(2, 'first', 'a'), OSError(2, 'second', 'b')]

  def wait():
    if faults:
      raise faults.pop(0)

  def save(path, args):
    del path, args
    checkpoints._writes = [Failing(lambda: None), Failing(remake)]
    shutil.rmtree(folder.parent)

  monkeypatch.setattr(orbax, 'save', save)
  monkeypatch.setattr(orbax, 'wait_until_finished', wait)
  checkpoints.save(1, {'x': jnp.ones(2)}, {})
  with errors.raises(FileNotFoundError, 'checkpoints/1'):
    checkpoints.close()
  assert late
  assert not faults
  assert not folder.parent.exists()
