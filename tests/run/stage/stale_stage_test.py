"""A stage whose batches are sampled by earlier policies."""

import chex
import jax
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import relax_async
from agentrl.learner import algorithm
from agentrl.learner import update as update_lib
from agentrl.rollout.keys import Stream, step_key
from agentrl.run import build
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stage_state
from agentrl.run.stage import stages as stages_lib
from tests.run import small_configs


@pytest.mark.slow
def test_a_stale_batch_is_sampled_by_the_policy_before(tmp_path):
  """Its tokens, keys and ages; what the state holds; what a stage forgets."""
  c = relax_async.get_config('tiny')
  c.update_from_flattened_dict(small_configs.SMALL)
  c.update(dict(data=str(tmp_path), steps=4))
  c.loss = (*c.loss, 'entropy')
  s = build.experiment(c)
  playing = jit_sampler.JitSampler(s)
  stage = stages_lib.rl_stage(s, 3, 7, playing)
  fresh = update_lib.init(s.algorithm, jax.random.key(0))
  old = stage_state.init_past([(s.config, s.algorithm)], fresh)
  state = stage.begin(old)
  assert [int(x.step) for x in state.past] == [3]
  before = jax.device_get(state.params['policy'])
  step = loop.jit_update(stage.algorithm, stage.update)
  batch, _ = stage.collect(state, stage.task(state, 3), 3)
  assert set(np.asarray(batch.ids['age']).tolist()) == {0}
  state, _, _ = step(state, batch)
  chex.assert_trees_all_equal(state.past[0].params['policy'], before)
  assert int(state.past[0].step) == 3
  attempts = stage.task(state, 4)
  batch, _ = stage.collect(state, attempts, 4)
  rows = jax.device_get(batch.rows)
  assert set(rows.version[rows.sampled].tolist()) == {3}
  assert set(np.asarray(batch.ids['age']).tolist()) == {1}
  key = step_key(state.key, Stream.ROLLOUT, 4)
  again, _ = playing.collect(before, attempts, key, 3)
  np.testing.assert_array_equal(rows.tokens, again.rows.tokens)
  np.testing.assert_array_equal(rows.logp, again.rows.logp)
  newer = stage.begin(state)
  chex.assert_trees_all_equal(
    newer.past[0].params['policy'], newer.params['policy']
  )


def test_a_policy_is_made_once_of_each_newer_state(tmp_path):
  """What a sampler compares between rounds is the same until there is more."""
  c = relax_async.get_config('tiny')
  c.update_from_flattened_dict(small_configs.SMALL)
  c.data = str(tmp_path)
  alg = build.experiment(c).algorithm
  begun = update_lib.init(alg, jax.random.key(0))
  newer = begun.replace(step=begun.step + 4)
  given = object(), 0
  there = []
  newest = stages_lib.follow(alg, lambda: there[-1], begun, given)
  for state in (begun, None):  # nothing new, or not computed yet
    there.append(state)
    assert newest() is given
  there.append(newer)
  policy, version = newest()
  assert version == 4
  chex.assert_trees_all_equal(
    policy, algorithm.full_params(alg.context, newer.params)
  )
  there.append(None)
  assert newest()[0] is policy
  there.append(newer)
  assert newest()[0] is policy
