"""Stages whose attempts begin like what stages before them have found."""

import numpy as np
import pytest

from agentrl.configs import base, grpo
from agentrl.dataset import run_log, trajectory_store
from agentrl.log import metrics
from agentrl.run import runner
from agentrl.types import Span
from tests.integration.resume_test import SMALL, KilledError, assert_same_run

ENVS = {'frozen_lake': {'slip': True}, 'countdown': {}}


def config(tmp_path, env):
  """Samples without training, then goes on from what failed."""
  c = grpo.get_config(f'tiny,env={env}')
  c.update_from_flattened_dict(SMALL)
  c.env.update(ENVS[env])
  c.data, c.micro_batch, c.sft.steps = str(tmp_path / 'data'), 8, 1
  c.checkpoint.every, c.rollout.max_turns = 1, 3
  base.source(c, 'failed', kind='found', edits=('keep_unsolved',))
  alone = {'minibatch': 'none', 'log.groups': -1}
  base.stage(c, 'explore', steps=2, changes=alone)
  given = {'prefix': 'random_prefix', 'prefix_source': 'failed'}
  base.stage(c, 'again', steps=3, changes=given | {'log.groups': -1})
  c.stages = ('sft', 'explore', 'again')
  return base.finish(c)


def given_turns(x):
  return sum(bool(np.any(turn.span == Span.PREFIX)) for turn in x.turns)


@pytest.mark.slow
@pytest.mark.parametrize('env', ENVS)
def test_own_trajectories_go_on_where_the_world_is_the_same(
  tmp_path, env, monkeypatch
):
  c = config(tmp_path, env)
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  write = metrics.MetricsWriter.write

  def write_and_die(self, step, scalars, *, phase, stage=''):
    write(self, step, scalars, phase=phase, stage=stage)
    if step == 5:
      raise KilledError

  with monkeypatch.context() as patch:
    patch.setattr(metrics.MetricsWriter, 'write', write_and_die)
    with pytest.raises(KilledError):
      runner.run(c, cut)
  runner.run(c, cut)
  if env == 'countdown':  # the engine's counts are of its cache, too
    logs = [[*run_log.read(x, steps=(2, 6))] for x in (whole, cut)]
    assert [x.id for x in logs[0]] == [x.id for x in logs[1]]
  else:
    assert_same_run(whole, cut, steps=6)

  source = [*trajectory_store.open_store(whole, 'again.failed')]
  begun = 0
  for x in run_log.read(whole, phase='rl', steps=(4, 6)):
    k = given_turns(x)
    if not k:
      continue
    begun += 1
    same = [
      y
      for y in source
      if y.task == x.task
      and [t.message.tolist() for t in y.turns[:k]]
      == [t.message.tolist() for t in x.turns[:k]]
      and [t.state for t in y.turns[:k]] == [t.state for t in x.turns[:k]]
    ]
    assert same
    for turn in x.turns[:k]:  # neither sampled nor trained on
      assert not turn.weight.any()
      assert not turn.logp.any()
    assert all(np.all(t.weight == 1) for t in x.turns[k:])
  rows = metrics.read(f'{whole}/metrics.jsonl')
  again = [x for x in rows if x['step'] > 3 and x['phase'] == 'rl']
  assert begun > 0
  if env == 'countdown':  # nothing is random: the world is the same
    assert all(x['rollout/prefix_cut'] == 0 for x in again)
