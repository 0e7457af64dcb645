"""Runs with prefixes: they train, charge what they took, and resume exactly."""

import importlib

import jax
import numpy as np
import pytest

from agentrl.learner import update
from agentrl.run import build
from agentrl.run.play import collect, jit_sampler
from agentrl.run.stage import prefixes, stages


def stage_of(method, folder):
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = module.get_config('tiny')
  c.data, c.steps = str(folder / 'data'), 2
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=1, kv_heads=1, head_dim=16, mlp=16)
  )
  c.rollout.update(dict(batch=16, group_size=8, slots=16, max_turns=4))
  c.sft.batch, c.micro_batch = 8, 16
  s = build.experiment(c)
  playing = jit_sampler.JitSampler(s)
  stage = stages.make_stages(s, ('rl',), {'rl': (s, playing)})[0]
  stage.open(0)
  return s, stage


def collected(s, stage, step):
  state = update.init(s.algorithm, jax.random.key(0))
  state = collect.init_memory(s, state)
  return state, stage.collect(state, stage.task(state, step), step)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
  'method',
  [
    'prefix_rft',
    'step_grpo',
    pytest.param('guided_retry', marks=pytest.mark.nightly),
  ],
)
def test_a_step_trains_and_comes_again_bit_for_bit(method, tmp_path):
  s, stage = stage_of(method, tmp_path)
  state, one = collected(s, stage, 1)
  _, two = collected(*stage_of(method, tmp_path), 1)
  for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    np.testing.assert_array_equal(x, y)
  given = np.asarray(one.ids['prefix'])
  turns = prefixes.of_demonstrations(s).turns
  assert (given < np.maximum(turns[np.asarray(one.ids['task'])], 1)).all()
  assert given.any() or method == 'prefix_rft'
  # A policy that knows no word solves nothing by itself.
  again = 2 if method == 'guided_retry' else 1
  assert one.sampled['attempts'] == 16 * again
  after, metrics, _ = jax.jit(lambda *x: update.update(s.algorithm, *x))(
    state, one
  )
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(metrics))
  assert int(after.step) == 1
