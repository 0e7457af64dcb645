"""Runs that read and write a memory of texts, killed and gone on with."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from agentrl.configs import base, grpo
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.log import trajectories
from agentrl.run import runner
from tests.integration import same
from tests.integration.cut import after_row
from tests.run import small_configs

pytestmark = pytest.mark.nightly


@dataclasses.dataclass(frozen=True)
class Noting:
  """One question, whose answer is a note; every second number is solved."""

  columns: ClassVar[tuple[str, ...]] = ('note',)
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def name(self):
    return task_sampling.name('noting', self)

  def describe(self, task):
    return f'{task["number"]}?'

  def tasks(self, split, count, seed):
    for n in range(count):
      number = n + 1000 * (split == 'test')
      yield HostTask({'number': number}, (), f'{number:016x}')

  def env(self):
    return Question()


@dataclasses.dataclass(frozen=True)
class Asking(Noting):
  """The question again, and what is said to it the first time is asked."""

  asks: ClassVar[bool] = True

  def asked(self, message):
    return message

  def name(self):
    return task_sampling.name('asking', self)

  def env(self):
    return Question(turns=2)


class Question:
  def __init__(self, turns=1):
    self.turns = turns

  def reset(self, task, seed):
    self.task, self.left = task, self.turns
    self.solved = float((task['number'] + seed) % 2)
    return f'{task["number"]}?'

  def step(self, message):
    self.left -= 1
    if self.left:
      return Step(f'{self.task["number"]}?')
    return Step('', self.solved, True, self.solved, info={'note': 1.0})

  def close(self):
    pass


def remembering(c, folder, steps, recall='nearest', **memory):
  c.data, c.steps = str(folder / 'data'), steps
  c.checkpoint.every = 2
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  c.curate, c.hp.curate = (), {}
  c.memory, c.recall = ('texts',), recall
  base.hp(c, 'memory', 'texts', capacity=4, tokens=8, **memory)
  base.hp(c, 'recall', recall, k=2, tokens=16, least=-1.0)
  return base.fill(c)


def read(run, turn=None):
  """Which entry each logged trajectory of an update has read, or a turn."""
  log = [x for x in trajectories.Log(run) if x['phase'] == 'rl']
  if turn is not None:
    return [x['turns'][turn]['terms']['note0'] for x in log if x['turns']]
  return [x['ids']['note0'] for x in log]


def lake(folder):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.update_from_flattened_dict(small_configs.SMALL)
  c.data, c.steps, c.sft.steps, c.sft.lr = str(folder / 'data'), 0, 80, 1e-2
  c.model.update(dict(width=32, mlp=64))
  c.env.update(dict(height=3, width=3))
  return c


@pytest.fixture(scope='module')
def warm(tmp_path_factory):
  """A run whose policy solves a lake now and then."""
  folder = tmp_path_factory.mktemp('warm')
  runner.run(lake(folder), str(folder / 'run'))
  return str(folder / 'run')


@pytest.mark.parametrize('bound', [0, 1])
def test_killed_at_ten_moments_it_ends_bit_for_bit_inside_jit(
  tmp_path, bound, warm
):
  def config():
    c = lake(tmp_path)
    c.staleness.update(dict(bound=bound, anchor='behaviour' if bound else ''))
    c.init, c.sft.steps, c.log.groups = warm, 0, -1
    return remembering(c, tmp_path, 11, floor=0.3)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(), whole)
  for row in range(1, 11):
    with after_row(row):
      runner.run(config(), cut)
  runner.run(config(), cut)
  same.assert_same_run(whole, cut, steps=11)
  assert max(read(whole)) >= 0  # something was solved, written and read


@pytest.mark.parametrize(
  ('recall', 'every'),
  [('nearest', ''), ('observed', 'turn'), ('observed', 'asked')],
)
def test_killed_at_ten_moments_it_has_equal_rows_on_hosts(
  tmp_path, recall, every
):
  def config():
    world = 'Asking' if every == 'asked' else 'Noting'
    arg = f'tiny,env={__name__}:{world}'
    c = small_configs.countdown(arg, log__groups=-1, sft__steps=0)
    c = remembering(c, tmp_path, 11, recall, write='note')
    if every:
      c.hp.recall.observed.every = every
    return c

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(), whole)
  for row in range(1, 11):
    with after_row(row):
      runner.run(config(), cut)
  runner.run(config(), cut)
  same.assert_same_run(
    whole, cut, steps=11, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
  )
  turn = {'turn': 0, 'asked': -1}.get(every)
  entries = read(whole, turn)
  assert len(np.unique(entries)) > 1
  if every == 'asked':
    assert set(read(whole, 0)) == {-1}
