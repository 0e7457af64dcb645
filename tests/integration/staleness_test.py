"""Runs whose batches are collected beside the updates, cut and not."""

import collections
import dataclasses
import time
from typing import ClassVar

import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.log import trajectories
from agentrl.run import runner
from tests.integration import same
from tests.integration.cut import after_row
from tests.integration.resume_test import SMALL
from tests.run import small_configs

pytestmark = pytest.mark.slow


def stale(c, tmp_path, **staleness):
  c.data, c.steps, c.sft.steps = str(tmp_path / 'data'), 6, 0
  c.checkpoint.every = 2
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  c.curate, c.hp.curate = (), {}
  c.staleness.update(dict(anchor='behaviour') | staleness)
  return c


@pytest.mark.parametrize(
  'depth', [pytest.param(0, marks=pytest.mark.nightly), 3]
)
def test_inside_jit(depth, tmp_path):
  """Cut between checkpoints: the run without threads, to the bit."""

  def config(**staleness):
    c = grpo.get_config('tiny')
    c.update_from_flattened_dict(SMALL)
    return stale(c, tmp_path, **staleness)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(bound=2, depth=3 - depth), whole)
  with after_row(3):
    runner.run(config(bound=2, depth=depth), cut)
  runner.run(config(bound=2, depth=depth), cut)
  same.assert_same_run(whole, cut, steps=6)
  ages = [r['rollout/age'] for r in same.rows(cut) if r['phase'] == 'rl']
  assert ages == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
  ('order', 'depth'),
  [('fixed', 2), pytest.param('latest', 2, marks=pytest.mark.nightly)],
)
def test_on_hosts(order, depth, tmp_path):
  def config(**staleness):
    c = small_configs.two_layers(small_configs.countdown(), tmp_path)
    return stale(c, tmp_path, bound=1, **staleness)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  with after_row(3):
    runner.run(config(depth=depth, order=order), cut)
  runner.run(config(depth=depth, order=order), cut)
  ages = [r['rollout/age_max'] for r in same.rows(cut) if r['phase'] == 'rl']
  assert len(ages) == 6
  assert max(ages) <= 1
  if order == 'fixed':
    runner.run(config(depth=0), whole)
    same.assert_same_run(
      whole, cut, steps=6, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
    )


@pytest.mark.nightly
def test_on_devices_of_their_own(tmp_path):
  """Two meshes of four devices: the numbers of one, to the bit."""

  def config(**staleness):
    c = grpo.get_config('tiny')
    c.update_from_flattened_dict(SMALL)
    c.mesh.update(dict(data=2, fsdp=2))
    return stale(c, tmp_path, bound=1, **staleness)

  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(config(depth=0), whole)
  runner.run(config(devices=4), apart)
  same.assert_same_run(whole, apart, steps=6)


@dataclasses.dataclass(frozen=True)
class Pauses:
  """Three questions, each answered after a log-normal while."""

  seconds: float = 0.1
  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def name(self):
    return task_sampling.name('pauses', self)

  def tasks(self, split, count, seed):
    for n in range(count):
      number = n + 1000 * (split == 'test')
      yield HostTask({'number': number}, (), f'{number:016x}')

  def env(self):
    return Pausing(self)


class Pausing:
  def __init__(self, family):
    self.family, self.turn = family, 0

  def reset(self, task, seed):
    self.rng, self.turn = np.random.default_rng(seed), 0
    return f'{task["number"]}?'

  def step(self, message):
    self.turn += 1
    time.sleep(self.family.seconds * np.exp(self.rng.normal()))
    score = min(1.0, len(set(message)) / 8)
    done = self.turn == 3
    return Step('and?', reward=score, done=done, score=score * done)

  def close(self):
    pass


def following(tmp_path, **staleness):
  """A config of twelve steps whose batches take newer versions."""
  c = grpo.get_config(f'tiny,env={__name__}:Pauses')
  how = dict(bound=2, depth=2, order='latest')
  c = stale(small_configs.two_layers(c, tmp_path), tmp_path, **how, **staleness)
  c.env.update(dict(train=8, test=4))
  c.steps, c.rollout.slots, c.log.groups = 12, 4, -1
  return c


@pytest.mark.nightly
@pytest.mark.parametrize(
  ('swap', 'devices'),
  [('turn', 0), ('token', 0), ('token', 1)],
)
def test_weights_change_within_batches(swap, devices, tmp_path):
  """A run in threads: trajectories of several versions, and none too old."""
  c = following(tmp_path, swap=swap, devices=devices)
  runner.run(c, str(tmp_path / 'run'))
  rows = [r for r in same.rows(tmp_path / 'run') if r['phase'] == 'rl']
  assert len(rows) == 12
  for row in rows:
    assert np.isfinite(row['loss/total'])
    assert not row['rollout/unscored']
    assert abs(row['ppo/ratio'] - 1) < 0.1
    assert row['rollout/age'] <= row['rollout/age_max'] <= 2
  spans = {row['step']: row['rollout/version_span'] for row in rows}
  assert sum(row['rollout/engine/swaps'] for row in rows) > 0
  assert sum(row['rollout/engine/prefilled_again'] for row in rows) > 0
  assert any(spans.values())
  logged = collections.defaultdict(list)
  for x in trajectories.Log(tmp_path / 'run'):
    if x['phase'] == 'rl':
      of = [
        np.atleast_1d(t['said'].get('version', t['version']))
        for t in x['turns']
      ]
      logged[x['step']].append(np.concatenate(of))
      if swap == 'turn':
        assert all(len(versions) == 1 for versions in of)
  assert sorted(logged) == sorted(spans) == list(range(1, 13))
  for step, versions in logged.items():
    ages = [step - 1 - x for x in versions]
    assert all(0 <= x.min() <= x.max() <= 2 for x in ages)
    assert np.mean([np.ptp(x) for x in ages]) == pytest.approx(spans[step])


def partial_rollouts(c, **task):
  """Unfinished attempts go on: the same config with segments of a turn."""
  c.task, c.collect, c.memory = 'partial', 'partial', ('unfinished',)
  c.hp.task = {'partial': dict(segment=1, segments=3) | task}
  queues = c.staleness.bound + 1
  c.hp.memory = {'unfinished': dict(queues=queues)}
  return c


@pytest.mark.nightly
@pytest.mark.parametrize('bound', [0, 1])
def test_unfinished_attempts_go_on_after_a_kill_inside_jit(bound, tmp_path):
  """They are in the checkpoint: the same run, to the bit."""

  def config():
    c = grpo.get_config('tiny')
    c.update_from_flattened_dict(SMALL)
    return partial_rollouts(stale(c, tmp_path, bound=bound))

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(), whole)
  with after_row(3):
    runner.run(config(), cut)
  runner.run(config(), cut)
  same.assert_same_run(whole, cut, steps=6)
  read = [r for r in same.rows(cut) if r['phase'] == 'rl']
  assert {0} < {r['rollout/whole_groups'] for r in read}
  ages = [r['rollout/age_max'] for r in read if r['rollout/whole_groups']]
  # Segments of S + 1 updates each, and what a batch is old itself.
  assert max(ages) == 2 * (bound + 1) + bound


@pytest.mark.nightly
@pytest.mark.parametrize('bound', [0, 1])
def test_unfinished_attempts_go_on_after_a_kill_on_hosts(bound, tmp_path):
  """Beside the updates too: the cut run collects in a thread then."""

  def config(depth):
    c = small_configs.countdown(checkpoint__every=2)
    return partial_rollouts(stale(c, tmp_path, bound=bound, depth=depth))

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(0), whole)
  with after_row(3):
    runner.run(config(bound), cut)
  runner.run(config(bound), cut)
  same.assert_same_run(
    whole, cut, steps=6, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
  )
  read = [r for r in same.rows(cut) if r['phase'] == 'rl']
  assert max(r['rollout/replayed'] for r in read) > 0
  assert max(r['rollout/age_max'] for r in read) > bound
