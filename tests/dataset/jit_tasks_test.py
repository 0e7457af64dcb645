import dataclasses
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agentrl.dataset import jit_tasks, tfds_store
from tests import errors


@dataclasses.dataclass(frozen=True)
class Solved:
  task: dict
  actions: list
  key: str


@dataclasses.dataclass
class Source:
  """Boards that are solved by their own numbers; `most` of them."""

  most: int = 100
  called: int = 0

  def name(self):
    return f'fake-{self.most}'

  def tasks(self, split, count, seed):
    self.called += 1
    rng = np.random.default_rng([split == 'test', seed])
    for i in range(min(count, self.most)):
      board = rng.integers(0, 9, (2, 2), dtype=np.int16)
      yield Solved(
        task={'board': board, 'start': np.int32(i)},
        actions=board.ravel()[: 1 + i % 3].tolist(),
        key=f'{split}-{seed}-{i}',
      )


def assert_same(a, b):
  assert a.keys == b.keys
  np.testing.assert_array_equal(a.actions, b.actions)
  for name in a.tasks.keys() | b.tasks.keys():
    np.testing.assert_array_equal(a.tasks[name], b.tasks[name], strict=True)


def test_a_set_holds_what_the_source_gave(tmp_path):
  got = jit_tasks.load(Source(), 'train', 7, 3, folder=tmp_path)
  want = list(Source().tasks('train', 7, 3))
  assert len(got) == 7
  assert got.keys == [s.key for s in want]
  assert got.actions.shape == (7, 3)
  assert got.actions.dtype == np.int32
  for row, s in zip(got.actions.tolist(), want, strict=True):
    assert row == s.actions + [-1] * (3 - len(s.actions))
  for name in ('board', 'start'):
    np.testing.assert_array_equal(
      got.tasks[name], np.stack([s.task[name] for s in want]), strict=True
    )


def test_a_set_is_built_once(tmp_path):
  first = jit_tasks.load(Source(), 'train', 7, 3, folder=tmp_path)
  idle = Source()
  assert_same(first, jit_tasks.load(idle, 'train', 7, 3, folder=tmp_path))
  assert idle.called == 0


def test_every_argument_makes_another_set(tmp_path):
  for source, split, count, seed in (
    (Source(), 'train', 7, 3),
    (Source(50), 'train', 7, 3),
    (Source(), 'test', 7, 3),
    (Source(), 'train', 6, 3),
    (Source(), 'train', 7, 4),
  ):
    got = jit_tasks.load(source, split, count, seed, folder=tmp_path)
    assert source.called == 1
    assert got.keys == [f'{split}-{seed}-{i}' for i in range(count)]


def test_a_source_that_gives_more_than_asked_is_cut(tmp_path):
  class Generous(Source):
    def tasks(self, split, count, seed):
      return super().tasks(split, count + 5, seed)

  assert len(jit_tasks.load(Generous(), 'test', 4, 0, folder=tmp_path)) == 4


def test_too_few_tasks_is_an_error_with_the_numbers(tmp_path):
  with errors.raises(ValueError, 'fake-3 3 train 9'):
    jit_tasks.load(Source(3), 'train', 9, 0, folder=tmp_path)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ('split', 'count', 'seed', 'message'),
  [
    ('valid', 5, 0, 'valid'),
    ('train', 0, 0, '0'),
    ('train', 5, -1, '-1'),
  ],
)
def test_wrong_arguments_are_named(tmp_path, split, count, seed, message):
  with errors.raises(ValueError, message):
    jit_tasks.load(Source(), split, count, seed, folder=tmp_path)


@pytest.mark.parametrize('name', ['', '..', 'a/b', 'a b', 'x' * 201])
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
  source = Source()
  source.name = lambda: name
  with errors.raises(ValueError, 'source name'):
    jit_tasks.load(source, 'train', 5, 0, folder=tmp_path)


def test_a_source_that_fails_leaves_nothing(tmp_path):
  class Broken(Source):
    def tasks(self, split, count, seed):
      yield from super().tasks(split, 2, seed)
      raise RuntimeError('no solver')

  with pytest.raises(RuntimeError):
    jit_tasks.load(Broken(), 'train', 5, 0, folder=tmp_path)
  again = Source()
  assert len(jit_tasks.load(again, 'train', 5, 0, folder=tmp_path)) == 5
  assert again.called == 1


LOAD = """
import sys
from absl import app, logging
sys.path.insert(0, {tests!r})
from agentrl.dataset import jit_tasks, tfds_store
from jit_tasks_test import Source

def main(_):
  logging.set_verbosity(logging.INFO)
  {before}
  got = jit_tasks.load(Source(), 'train', 7, 3, folder={folder!r})
  assert len(got) == 7
  assert 'tensorflow' not in sys.modules

app.run(main)
"""


MEET = """
  import os, pathlib, random, time
  random.seed(0)
  build = tfds_store._build
  def meet(*args):
    folder = pathlib.Path(args[-1])
    (folder / f'here-{os.getpid()}').touch()
    for _ in range(10_000):  # gives up should the other have died
      if len(list(folder.glob('here-*'))) == 2:
        break
      time.sleep(0.01)
    assert len(list(folder.glob('here-*'))) == 2
    build(*args)
  tfds_store._build = meet
"""


def start(folder, before='pass'):
  """Another process that loads the set, with everything logged."""
  here = Path(__file__)
  code = LOAD.format(tests=str(here.parent), before=before, folder=str(folder))
  path = os.pathsep.join(filter(None, [os.environ.get('PYTHONPATH'), '.']))
  return subprocess.Popen(
    [sys.executable, '-c', code],
    cwd=here.parents[2],
    env={**os.environ, 'PYTHONPATH': path},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


@pytest.mark.slow
def test_a_build_prints_one_line_and_imports_no_tensorflow(tmp_path):
  process = start(tmp_path)
  out, err = process.communicate()
  assert process.returncode == 0, err
  assert out == ''
  (line,) = err.splitlines()
  said = re.compile(r'Built 7 train tasks of fake-100 in [0-9.]+ s\.$')
  assert said.search(line), line
  process = start(tmp_path)
  assert process.communicate() == ('', '')
  assert process.returncode == 0


def test_two_processes_may_build_at_once(tmp_path):
  # Both have found nothing before either builds, and draw alike from `random`.
  both = [start(tmp_path, MEET) for _ in range(2)]
  for process in both:
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert 'Built 7' in err
  idle = Source()
  assert len(jit_tasks.load(idle, 'train', 7, 3, folder=tmp_path)) == 7
  assert idle.called == 0


def test_a_build_killed_half_way_is_done_again(tmp_path):
  process = start(
    tmp_path, "tfds_store.os.rename = lambda *_: __import__('os')._exit(9)"
  )
  process.communicate()
  assert process.returncode == 9
  assert len(list(tmp_path.glob('.building-*'))) == 1
  assert not tfds_store.location(tmp_path, 'fake-100-train-7-3').exists()
  again = Source()
  assert len(jit_tasks.load(again, 'train', 7, 3, folder=tmp_path)) == 7
  assert again.called == 1


def test_other_log_lines_are_left_alone(caplog):
  from absl import logging as absl_logging

  with tfds_store.quiet(), caplog.at_level(logging.INFO, 'absl'):
    absl_logging.info('ours')
  assert [r.getMessage() for r in caplog.records] == ['ours']


@pytest.mark.parametrize(('n', 'batch'), [(10, 4), (7, 7), (3, 8), (5, 1)])
def test_every_task_comes_once_an_epoch(n, batch):
  steps = 40 * n // batch
  order = np.concatenate(
    [jit_tasks.epoch_order(n, 5, step, batch) for step in range(steps)]
  )
  epochs = order[: len(order) // n * n].reshape(-1, n)
  np.testing.assert_array_equal(
    np.sort(epochs, axis=1), np.tile(np.arange(n), (len(epochs), 1))
  )
  assert len({tuple(e) for e in epochs}) > 3  # permuted anew


def test_the_order_depends_on_the_stream_of_positions_only():
  by_four = [jit_tasks.epoch_order(10, 1, s, 4) for s in range(6)]
  by_six = [jit_tasks.epoch_order(10, 1, s, 6) for s in range(4)]
  np.testing.assert_array_equal(np.concatenate(by_four), np.concatenate(by_six))


def test_seeds_and_epochs_give_orders_of_their_own():
  def epoch(seed, e):
    return tuple(jit_tasks.epoch_order(50, seed, e, 50))

  orders = [epoch(seed, e) for seed in range(6) for e in range(6)]
  assert len(set(orders)) == 36
  assert epoch(2, 3) == orders[15]


def test_orders_are_uniform():
  first = [jit_tasks.epoch_order(5, seed, 0, 1)[0] for seed in range(2000)]
  share = np.bincount(first, minlength=5) / 2000
  np.testing.assert_allclose(share, 0.2, atol=0.04)  # 4.5 standard errors


def test_the_order_is_the_one_that_runs_were_started_with():
  # A resumed run must go on with this order: change it and runs repeat tasks.
  got = jit_tasks.epoch_order(8, 0, 0, 8).tolist()
  assert sorted(got) == list(range(8))
  assert got == [0, 3, 7, 5, 1, 2, 6, 4]


@pytest.mark.parametrize(
  'wrong', [{'n': 0}, {'seed': -1}, {'step': -1}, {'batch': 0}]
)
def test_wrong_cursors_are_named(wrong):
  ((name, value),) = wrong.items()
  args = {'n': 4, 'seed': 0, 'step': 0, 'batch': 2, **wrong}
  with errors.raises(ValueError, f'{name} {value}'):
    jit_tasks.epoch_order(**args)
