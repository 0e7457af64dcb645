"""Batches of a run's sampler have the size that the config says."""

import functools

import jax
import numpy as np

from agentrl.configs import base, grpo_roc
from agentrl.learner import update
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from tests import states


def test_a_batch_has_the_size_that_was_asked_for(tmp_path):
  """Of the stage's own attempts, by shapes alone: nothing is sampled."""
  c = grpo_roc.get_config('tiny')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=2))
  c.rollout.update(dict(batch=16, group_size=4, slots=16, max_turns=3))
  c.sft.batch, c.micro_batch = 16, 24
  s = build.experiment(c)
  attempts = stages.rl_stage(s, 0, 1, jit_sampler.JitSampler(s)).task(
    states.state(), 0
  )
  state = update.init(s.algorithm, jax.random.key(0))
  size = collect_lib.num_attempts_of_group(base.wiring(c), 4)
  assert np.unique(attempts.group).tolist() == list(range(32 // size))
  assert np.bincount(attempts.group).tolist() == [size] * (32 // size)
  batch = jax.eval_shape(
    functools.partial(collect_lib.rollout_and_score, s),
    state.params['policy'],
    attempts,
    state.key,
    state.step,
  )
  assert batch.outcome.shape == (16,)
  assert batch.rows.tokens.shape[0] == 16 * 3
