"""Stages whose attempts begin like what stages before them have found."""

import numpy as np
import pytest

from agentrl.configs import base, grpo
from agentrl.dataset import run_log, trajectory_store
from agentrl.log import metrics
from agentrl.run import runner
from agentrl.types import Span
from tests.integration.cut import after_row
from tests.integration.resume_test import SMALL
from tests.integration.same import assert_same_run

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


@pytest.mark.nightly
def test_killed_while_own_trajectories_go_on(tmp_path):
  c = config(tmp_path, 'frozen_lake')
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(5):
    runner.run(c, cut)
  runner.run(c, cut)
  assert_same_run(whole, cut, steps=6)
  check_beginnings(whole)


@pytest.mark.nightly
def test_own_trajectories_go_on_in_host_environments(tmp_path):
  runner.run(config(tmp_path, 'countdown'), str(tmp_path))
  check_beginnings(str(tmp_path))
  rows = metrics.read(str(tmp_path / 'metrics.jsonl'))
  again = [x for x in rows if x['step'] > 3 and x['phase'] == 'rl']
  # Nothing is random there: the world is the same.
  assert [x['rollout/prefix_cut'] for x in again] == [0] * 3


def check_beginnings(workdir):
  """Given turns are those of the source; all others are the policy's."""
  source = [*trajectory_store.open_store(workdir, 'again.failed')]
  begun = 0
  for x in run_log.read(workdir, phase='rl', steps=(4, 6)):
    k = given_turns(x)
    begun += k > 0
    for turn in x.turns[:k]:  # neither sampled nor trained on
      assert not turn.weight.any()
      assert not turn.logp.any()
    assert all(np.all(t.weight == 1) for t in x.turns[k:])
    assert not k or any(
      y.task == x.task and beginning(y, k) == beginning(x, k) for y in source
    )
  assert begun > 0


def beginning(x, k):
  return [(t.state, t.message.tolist()) for t in x.turns[:k]]
