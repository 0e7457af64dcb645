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


class Question:
  def reset(self, task, seed):
    self.solved = float((task['number'] + seed) % 2)
    return f'{task["number"]}?'

  def step(self, message):
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


def read(run, by_turn=False):
  """Which entry each logged trajectory of an update has read, at first."""
  log = [x for x in trajectories.Log(run) if x['phase'] == 'rl']
  if by_turn:
    return [x['turns'][0]['terms']['note0'] for x in log if x['turns']]
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


@pytest.mark.parametrize('recall', ['nearest', 'observed'])
def test_killed_at_ten_moments_it_has_equal_rows_on_hosts(tmp_path, recall):
  def config():
    arg = f'tiny,env={__name__}:Noting'
    c = small_configs.countdown(arg, log__groups=-1, sft__steps=0)
    return remembering(c, tmp_path, 11, recall, write='note')

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(), whole)
  for row in range(1, 11):
    with after_row(row):
      runner.run(config(), cut)
  runner.run(config(), cut)
  same.assert_same_run(
    whole, cut, steps=11, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
  )
  entries = read(whole, by_turn=recall == 'observed')
  assert len(np.unique(entries)) > 1
