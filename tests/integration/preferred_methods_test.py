"""Methods that learn a reward of preferences: two updates of each stage."""

import importlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import recrm_bench
from agentrl.configs import stages as stage_list
from agentrl.learner import update as update_lib
from agentrl.run import build, placement
from agentrl.run.play import sampler
from agentrl.run.stage import stages
from tests.integration import mesh_methods_test

# (stage) -> roles that learn in it
PREFERRED = {
  'heron': {'rl': {'policy', 'reward'}},
  'recrm_bench': {'judge': {'reward'}, 'rl': {'policy'}},
  'salmon': {'judge': {'reward'}, 'rl': {'policy'}},
  'vpl': {'judge': {'reward'}, 'rl': {'policy'}},
}
# Inside jit learned_rewards_test.py has one of them, by day.
DAILY = (('recrm_bench', (1, 1)),)
CASES = [
  pytest.param(
    method,
    name,
    sizes,
    marks=pytest.mark.slow if (method, sizes) in DAILY else pytest.mark.nightly,
  )
  for method, of_stage in PREFERRED.items()
  for name in of_stage
  for sizes in ((1, 1), (2, 4))
  # On a mesh the others are played whole, by terms of their own.
  if sizes == (1, 1) or method not in mesh_methods_test.CASES
]


def config(method, stage, folder, sizes):
  """The tiniest stage that still has groups, turns and minibatches."""
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.data = str(folder)
  c.model.update(
    dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)
  )
  c.rollout.update(dict(batch=16, group_size=4, slots=16))
  c.micro_batch = c.sft.batch = 16
  c.env.update(dict(train=16, test=4))
  c.mesh.fsdp, c.mesh.tensor = sizes
  plans = {x.name: x.config for x in stage_list.plans(c)}
  return plans[stage]


def taken(batch, seed):
  """The batch as if these terms had been told, and liked."""
  r, shape = np.random.default_rng(seed), batch.turns.valid.shape
  valid = np.asarray(batch.turns.valid)
  told = {
    'apples': r.integers(0, 3, shape),
    'berries': r.integers(0, 3, shape),
    'spoilt': r.integers(0, 2, shape),
    **{name: r.integers(0, 2, shape) for name in recrm_bench.DIMENSIONS},
  }
  told = {k: x for k, x in told.items() if k in batch.turns.terms}
  terms = {k: jnp.asarray(x * valid, jnp.float32) for k, x in told.items()}
  reward = jnp.asarray(r.normal(size=shape) * valid, jnp.float32)
  turns = batch.turns.replace(reward=reward, terms=batch.turns.terms | terms)
  return batch.replace(turns=turns)


@pytest.mark.parametrize(('method', 'stage', 'sizes'), CASES)
def test_two_updates(method, stage, sizes, tmp_path):
  s = build.experiment(config(method, stage, tmp_path, sizes))
  with placement.on_mesh(s.config), sampler.open_sampler(s) as opened:
    playing = stages.rl_stage(s, 0, 2, opened)
    state = playing.begin(update_lib.init(s.algorithm, jax.random.key(0)))
    push = lambda x: x + 0.05  # noqa: E731  heads begin at 0
    reward = jax.tree.map(push, state.params['reward'])
    state = state.replace(params=state.params | {'reward': reward})
    before = jax.device_get(state.params)
    assert set(before) == {'policy', 'reward'}
    step = loop.jit_update(playing.algorithm, update_lib.update)
    for i in range(2):
      batch, _ = playing.collect(state, playing.task(state, i), i)
      state, told, _ = step(state, taken(batch, i))
      chex.assert_tree_all_finite(told)
    after = jax.device_get(state.params)
  moved = {role for role in before if not equal(before[role], after[role])}
  assert moved == PREFERRED[method][stage]


def equal(a, b):
  pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
  return all(np.array_equal(x, y) for x, y in pairs)
