"""Seeds that run together are the runs that they are alone."""

import os

import jax
import numpy as np
import pytest

from agentrl import metrics
from configs import grpo, spear
from experiments import abreast, build, folder, lanes, runner, space, together

SMALL = {
  'steps': 3,
  'micro': 8,
  'model.width': 16,
  'model.layers': 1,
  'rollout.batch': 8,
  'rollout.slots': 8,
  'rollout.turns': 3,
  'sft.steps': 2,
  'sft.batch': 8,
  'env.train': 16,
  'env.test': 4,
  'eval.episodes': 12,
  'eval.every': 2,
  'checkpoint.every': 2,
}
SEEDS = (3, 5)
STEPS = SMALL['sft.steps'] + SMALL['steps']


class KilledError(Exception):
  pass


@pytest.fixture
def compiled_once(tmp_path):
  """The runs of a test find what the first of them compiled."""
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'cache'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  yield
  jax.config.update('jax_compilation_cache_dir', None)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 1.0)


def configs(method, data):
  out = []
  for seed in SEEDS:
    c = method.get_config('tiny')
    c.update_from_flattened_dict(SMALL | {'data': str(data), 'seed': seed})
    c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
    out.append(c)
  return out


def cut_after(step, patch):
  """Writing ends with a row beyond the last checkpoint."""
  write = metrics.Writer.write

  def write_and_die(self, at, scalars, *, phase):
    write(self, at, scalars, phase=phase)
    if at == step:
      raise KilledError

  patch.setattr(metrics.Writer, 'write', write_and_die)


def assert_same(one, other):
  """The rows of every step, evaluations too, and the last state."""
  rows = [metrics.read(os.path.join(x, 'metrics.jsonl')) for x in (one, other)]
  assert [(r['step'], r['phase']) for r in rows[0]] == [
    (1, 'sft'), (2, 'sft'), (2, 'eval'), (3, 'rl'), (4, 'rl'), (4, 'eval'),
    (5, 'rl'), (5, 'eval'),
  ]  # fmt: skip
  for a, b in zip(*rows, strict=True):
    assert list(a) == list(b)
    for name in a:
      if isinstance(a[name], str):
        assert a[name] == b[name]
      elif not name.startswith('time/'):
        np.testing.assert_allclose(
          a[name], b[name], rtol=1e-4, atol=1e-5, err_msg=name
        )
  c = folder.read_config(one)
  shape = build.setup(c).shape
  (step, state), (twin_step, twin) = (
    folder.load(c, shape, x) for x in (one, other)
  )
  assert step == twin_step == STEPS
  kept = ((x.params, x.opt, x.signal, x.memory) for x in (state, twin))
  a, b = (jax.tree.leaves(x) for x in kept)
  for x, y in zip(a, b, strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
  assert (jax.random.key_data(state.key) == jax.random.key_data(twin.key)).all()
  assert sorted(os.listdir(one)) == sorted(os.listdir(other))


@pytest.mark.parametrize(
  ('method', 'devices'),
  [
    (grpo, 2),
    pytest.param(grpo, 1, marks=pytest.mark.slow),
    pytest.param(spear, 2, marks=pytest.mark.slow),  # has a memory
  ],
)
@pytest.mark.usefixtures('compiled_once')
def test_they_are_the_runs_that_they_are_alone(
  method, devices, tmp_path, monkeypatch
):
  """Also if one was begun alone and both were cut off."""
  found = jax.devices()[:devices]
  monkeypatch.setattr(lanes.jax, 'devices', lambda: found)
  runs = configs(method, tmp_path / 'data')
  alone, beside = (
    [str(tmp_path / x / str(seed)) for seed in SEEDS] for x in ('one', 'all')
  )
  for c, workdir in zip(runs, alone, strict=True):
    runner.run(c, workdir)
  with monkeypatch.context() as patch:
    cut_after(3, patch)
    with pytest.raises(KilledError):
      runner.run(runs[1], beside[1])
  with monkeypatch.context() as patch:
    cut_after(5, patch)
    with pytest.raises(KilledError):
      abreast.run(runs, beside)
  abreast.run(runs, beside)
  for one, other in zip(alone, beside, strict=True):
    assert_same(one, other)
  first, last = (folder.load(c, build.setup(c).shape, w)[1].params['policy']
                 for c, w in zip(runs, alone, strict=True))  # fmt: skip
  apart = jax.tree.map(lambda a, b: np.abs(a - b).max(), first, last)
  assert max(jax.tree.leaves(apart)) > 0.01  # else equality says little


def test_what_cannot_go_together_is_told(tmp_path):
  one, other = configs(grpo, tmp_path)
  for changes, words in (
    ({'steps': 4}, 'config.steps is 3 in one run and 4 in another'),
    ({'init': 'run'}, 'config.init'),
    ({'mesh.data': 2}, 'mesh.data'),
  ):
    wrong = space.change(other.copy_and_resolve_references(), changes)
    with pytest.raises(ValueError, match=words):
      abreast.run([one, wrong][:: -1 if 'mesh.data' in changes else 1], ['a'])
  for seeds, init, words in (
    (['0', 'x'], [], '0,x'),
    ([], [], 'seeds='),
    (['0', '1'], ['run'], 'given 1 times and there are 2'),
  ):
    with pytest.raises(ValueError, match=words):
      together.changes(seeds, init)
  assert together.changes(['4'], ['run']) == [{'seed': 4, 'init': 'run'}]


def test_numbers_are_dealt_out():
  found = lanes.gather([{'a': 1.0, 'b': 2}, {'a': 3.0}])
  found |= {'c': np.array([5.0, 6.0]), 'time': 7.0}
  assert lanes.of_lane(found, 0) == {'a': 1.0, 'b': 2, 'c': 5.0, 'time': 7.0}
  assert lanes.of_lane(found, 1) == {'a': 3.0, 'c': 6.0, 'time': 7.0}
  parts = ['x', 'y', 'z']
  assert list(lanes.there(parts, [None, 4, 5], 5)) == [(0, 'x'), (1, 'y')]


def test_metrics_of_several_runs_come_late_as_one():
  late = metrics.Late((2,))
  late.push(1, {'x': (np.array([3.0, 1.0]), np.array([2.0, 0.0]))})
  _, scalars = late.drain()
  np.testing.assert_array_equal(scalars['x'], [1.5, np.nan])
  with pytest.raises(ValueError, match=r'shape \(2,\)'):
    late.push(2, {'x': 1.0})
