"""What damages a run's side files costs no checkpoint and stops no run."""

import functools
import os
import pathlib
import random
import shutil

import numpy as np
import pytest

from agentrl.log import metrics, trajectories
from agentrl.run import runner
from agentrl.runtime import lock
from tests import errors
from tests.integration.cut import KilledError
from tests.integration.toy_run import STEPS, rows, run, state

SIDE_FILES = (
  'config.json',
  'header.json',
  'metrics.jsonl',
  'trajectories/00000-00000.jsonl',
  'trajectories/00000-00000.index',
  'checkpoints/saving',
  'tensorboard',
  'checkpoints/6/manifest.json',
  'checkpoints/6/state/manifest.ocdbt',
  'checkpoints/6/meta/metadata',
  'lock.1',
)
WAYS = ('truncated', 'flipped', 'emptied', 'folder', 'removed', 'noise')


def kill(step: int) -> None:
  if step == 8:
    raise KilledError


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  path = tmp_path_factory.mktemp('whole')
  run(path)
  return path


@pytest.fixture(scope='module')
def cut(tmp_path_factory):
  """Killed at step 8: checkpoints of 3 and 6, two more rows."""
  path = tmp_path_factory.mktemp('cut')
  with pytest.raises(KilledError):
    run(path, at=kill)
  assert sorted(p.name for p in (path / 'checkpoints').iterdir()) == ['3', '6']
  return path


def damage(path: pathlib.Path, how: str, r: random.Random) -> bytes:
  """Returns what is no longer there as it was; b'' if nothing."""
  path.parent.mkdir(parents=True, exist_ok=True)
  if path.is_dir():
    shutil.rmtree(path)
  data = path.read_bytes() if path.exists() else b''
  if how in ('folder', 'removed'):
    path.unlink(missing_ok=True)
    if how == 'folder':
      path.mkdir()
      (path / 'mine').write_text('not to be lost')
    return b''
  new = bytearray(data)
  if how == 'truncated':
    new = new[: r.randrange(len(data) + 1)]
  elif how == 'flipped' and data:
    for _ in range(r.randint(1, 3)):
      new[r.randrange(len(data))] ^= 1 << r.randrange(8)
  else:
    new = bytearray(r.randbytes(30) if how == 'noise' else b'')
  path.write_bytes(new)
  return bytes(new)


def texts(workdir) -> list[bytes]:
  return [p.read_bytes() for p in workdir.rglob('*') if p.is_file()]


CASES = [(name, how) for name in SIDE_FILES for how in WAYS]


@pytest.mark.parametrize(('name', 'how'), CASES[::5])
def test_a_damaged_side_file(tmp_path, monkeypatch, whole, cut, name, how):
  check(tmp_path, monkeypatch, whole, cut, name, how)


@pytest.mark.nightly
@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize(('name', 'how'), CASES)
def test_any_damage(tmp_path, monkeypatch, whole, cut, name, how, seed):
  check(tmp_path, monkeypatch, whole, cut, name, how, seed)


def check(tmp_path, monkeypatch, whole, cut, name, how, seed=0):
  """The run goes on from a whole checkpoint and ends as it would have."""
  quick = functools.partial(lock.Lock, beat=0.02, stale=0.1)
  monkeypatch.setattr(runner.lock_lib, 'Lock', quick)
  there = tmp_path / 'run'
  shutil.copytree(cut, there)
  r = random.Random(f'{name} {how} {seed}')
  left = damage(there / name, how, r)
  run(there)
  assert state(there) == state(whole)
  here = rows(there)
  after = 3 if name.startswith('checkpoints/6') else 6
  if name == 'metrics.jsonl':
    steps = [row['step'] for row in here]
    assert steps == sorted(steps)
    assert [x for x in here if x['step'] > after] == [
      x for x in rows(whole) if x['step'] > after
    ]
    known = [x['step'] for x in rows(whole)]
    assert len(steps) <= len(known)
  else:
    np.testing.assert_equal(here, rows(whole))
  log, want = (trajectories.Log(w) for w in (there, whole))
  steps = [int(s) for s in log.heads['step']]
  assert steps == sorted(set(steps))
  assert {*range(after + 1, STEPS + 1)} <= {*steps}
  if name != 'trajectories/00000-00000.jsonl':
    assert list(log) == list(want)
  if how == 'folder':
    assert b'not to be lost' in texts(there)
  damaged = how in ('flipped', 'noise', 'truncated') and left
  if damaged and name == 'config.json':
    assert left in texts(there) or (there / name).exists()


def test_every_line_that_is_no_row_is_kept_beside(tmp_path, caplog):
  lines = [
    '[]',
    '3',
    'null',
    '{}',
    '{"step": 2}',
    '{"step": "2", "phase": "rl"}',
    '{"step": true, "phase": "rl"}',
    '{"step": 2, "phase": "rm"}',
    '\0\0',
    '{"step": 2, "phase": "rl", "x": []}',
    '[' * 100_000,
    '"\ud800',
    '{"step": -1, "phase": "rl"}',
  ]
  good = [f'{{"step": {i}, "phase": "rl"}}' for i in (1, 2, 3, 4)]
  for line in lines:
    path = tmp_path / f'{lines.index(line)}' / metrics.FILE
    path.parent.mkdir()
    text = '\n'.join([good[0], good[1], line, good[2], good[3], ''])
    path.write_bytes(text.encode(errors='surrogatepass'))
    with errors.raises(ValueError, '3'):
      metrics.read(path)
    metrics.MetricsWriter(path.parent, resume_after=3, header={}).close()
    assert [row['step'] for row in metrics.read(path)] == [1, 2, 3]
    beside = path.with_name('metrics.jsonl.damaged.1')
    assert beside.read_bytes() == text.encode(errors='surrogatepass')
    assert 'line 3' in caplog.text
    caplog.clear()


def test_one_wrong_step_costs_one_row(tmp_path):
  """Too large, too small, twice, or in the way of two processes at once."""
  for steps, left in {
    (1, 9, 3, 4): [1, 3, 4],
    (1, 2, 0, 4): [1, 2, 4],
    (1, 2, 2, 3): [1, 2, 3],
    (1, 2, 1, 3, 2, 3): [1, 2, 3],
  }.items():
    path = tmp_path / metrics.FILE
    path.write_text(''.join(f'{{"step": {s}, "phase": "rl"}}\n' for s in steps))
    metrics.repair(path)
    assert [row['step'] for row in metrics.read(path)] == left


def test_a_whole_file_is_only_cut(tmp_path):
  """Nothing is rewritten or kept beside where no line is damaged."""
  path = tmp_path / metrics.FILE
  path.write_text(''.join(f'{{"step": {s}, "phase": "rl"}}\n' for s in (1, 2)))
  before = os.stat(path).st_ino
  metrics.repair(path, 1)
  assert [row['step'] for row in metrics.read(path)] == [1]
  assert os.stat(path).st_ino == before
  assert len(list(tmp_path.iterdir())) == 1
