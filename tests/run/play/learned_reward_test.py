"""What a run has learned of reward scores what an evaluation plays."""

import jax
import numpy as np
import pytest

from agentrl.configs import base, grpo, oprl
from agentrl.learner import update
from agentrl.run import build
from agentrl.run.play import collect, learned_reward
from agentrl.task.base import make_attempts


def _played(c, tmp_path):
  c.data, c.rollout.batch, c.micro_batch = str(tmp_path), 8, 16
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(8) // 4, 4, s.plan.turns, 1.0)
  record = collect.play(s, state.params['policy'], attempts, jax.random.key(1))
  return s, state, attempts, jax.device_get(record)


@pytest.mark.slow
def test_scores_are_those_that_the_update_learns_from(tmp_path):
  c = grpo.get_config('tiny,env=frozen_lake')
  base.role(c, 'reward', lr=1e-3, heads=1)
  c.curate, c.signal = ('opposite_ranks',), ('reward_model',)
  s, state, attempts, record = _played(c, tmp_path)
  push = lambda x: x + 0.1 * jax.random.normal(state.key, x.shape)  # noqa: E731
  params = {
    **state.params,
    'reward': jax.tree.map(push, state.params['reward']),
  }
  state = state.replace(params=params)  # its head begins at 0
  got = learned_reward.scorer(s, state)(attempts, record)
  batch = collect.score(
    s.algorithm.spec, collect.arrays(s, record, attempts, 0)
  )
  fields, _ = s.algorithm.signals['reward_model'].score(state, batch, {})
  whole = fields['reward_model.return'][:, 0]
  assert np.ptp(whole) > 0
  np.testing.assert_allclose(got, whole, rtol=1e-5)


def test_a_process_reward_model_needs_the_old_log_probs(tmp_path):
  s, state, *played = _played(oprl.get_config('tiny,env=frozen_lake'), tmp_path)
  assert np.isfinite(learned_reward.scorer(s, state)(*played)).all()


def test_who_has_learned_nothing_scores_nothing(tmp_path):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  assert learned_reward.scorer(s, state) is None
