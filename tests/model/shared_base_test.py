"""Roles on one base: what is held, what moves, what stays to the bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, mesh
from agentrl.configs import base as of_configs
from agentrl.configs import oprl
from agentrl.learner import algorithm, update
from agentrl.model import shared_base
from agentrl.nn import lora, transformer
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import build, placement, weights
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from tests import errors

RANK = 4


def config(rank: int = RANK, **lora_fields):
  c = oprl.get_config('tiny,env=frozen_lake')
  c.lora.update(dict(rank=rank, **lora_fields))
  c.model.layers = 1
  c.rollout.update(dict(batch=16, group_size=4, slots=16, max_turns=3))
  c.micro_batch, c.sft.batch, c.env.train, c.env.test = 16, 16, 32, 16
  for role in c.role:
    c.role[role].warmup = 0
  return c


@functools.cache
def setup() -> build.Experiment:
  return build.experiment(config())


def graded(batch, step: int):
  """The batch with rewards that tell its trajectories apart."""
  r = np.random.default_rng(step)
  reward = np.float32(r.normal(size=batch.turns.reward.shape))
  outcome = np.float32(np.arange(16) % 2)
  turns = batch.turns.replace(reward=placement.replicated(reward))
  return batch.replace(turns=turns, outcome=placement.replicated(outcome))


def copied(tree):
  """On the host, in memory of its own: the state will be donated."""
  return jax.tree.map(np.array, jax.device_get(tree))


def two_updates(s: build.Experiment):
  """-> states before and after, on the host; metrics of the second."""
  state = update.init(s.algorithm, jax.random.key(0))
  stage = stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))
  state = stage.begin(state)
  update_state = loop.jit_update(stage.algorithm)
  before, told = copied((state.params, state.opt)), {}
  for step in range(2):
    batch = graded(stage.collect(state, stage.task(state, step), step)[0], step)
    base = jax.tree.leaves(state.params[shared_base.BASE])
    state, told, _ = update_state(state, batch)
    assert all(x.is_deleted() for x in base)  # donated, not copied
  return before, copied((state.params, state.opt)), told


def bytes_of(tree) -> int:
  return sum(x.nbytes for x in jax.tree.leaves(tree))


def check(before, after, told):
  """Real updates of both adapters; the base is as it was."""
  (old, _), (new, opt) = before, after
  jax.tree.map(
    np.testing.assert_array_equal, old[shared_base.BASE], new[shared_base.BASE]
  )
  for role in ('policy', 'prm'):
    assert set(new[role]) == {shared_base.OWN}
    assert role in opt
    total, count = told[f'{role}/nonfinite_skips']
    assert total == 0
    assert count > 0
    for x, y in zip(*map(jax.tree.leaves, (old[role], new[role])), strict=True):
      assert np.any(x != y)
  assert told['logp/sampler_mismatch_max'][0] < 1e-5


@pytest.mark.nightly
def test_two_updates_of_oprl():
  s = setup()
  before, after, told = two_updates(s)
  check(before, after, told)
  # One base; of each role an adapter, and two moments and a count of it.
  params, opt = after
  base = transformer.specs(s.shape)
  own = 4 * mesh.count(lora.specs(lora.Lora(RANK), base['layers']))
  assert bytes_of(params) == 4 * mesh.count(base) + 2 * own
  assert bytes_of(opt) == 2 * (2 * own + 4)


@pytest.mark.nightly
def test_a_mesh_changes_no_number():
  """The second update's metrics, of one device and of four."""
  want = two_updates(setup())[2]
  c = config()
  c.mesh.update(dict(fsdp=2, tensor=2))
  s = build.experiment(c)
  with placement.on_mesh(c):
    before, after, got = two_updates(s)
    check(before, after, got)
  for name, (total, count) in jax.device_get(want).items():
    np.testing.assert_allclose(got[name][0], total, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got[name][1], count)


@pytest.mark.slow
def test_roles_start_as_the_policy_without_touching_the_base():
  s = setup()
  state = update.init(s.algorithm, jax.random.key(1))
  moved = jax.tree.map(lambda x: x + 1, state.params['policy'])
  state = state.replace(params={**state.params, 'policy': moved})
  started = update.init_roles_from_policy(s.algorithm, state)
  for role in ('policy', 'prm'):
    jax.tree.map(np.testing.assert_array_equal, started.params[role], moved)
  assert started.params[shared_base.BASE] is state.params[shared_base.BASE]


@pytest.mark.slow
def test_heads_stand_beside_the_adapter():
  c = config()
  of_configs.role(c, 'value', heads=2)
  s = build.experiment(c)
  specs = s.algorithm.context.modules['value'].specs
  assert set(specs) == {shared_base.OWN, 'value'}
  state = update.init(s.algorithm, jax.random.key(0))
  whole = algorithm.full_params(s.algorithm.context, state.params, 'value')
  assert whole['value'].shape == (c.model.width, 2)
  assert whole['embed'] is state.params[shared_base.BASE]['embed']


@pytest.mark.slow
def test_another_runs_policy_becomes_the_base():
  """Of a run with an adapter of its own, merged."""
  s = setup()
  state = update.init(s.algorithm, jax.random.key(2))
  moved = jax.tree.map(lambda x: x + 0.1, state.params['policy'])
  theirs = {**state.params, 'policy': moved}
  found = lora.merge(algorithm.full_params(s.algorithm.context, theirs))
  fresh = update.init(s.algorithm, jax.random.key(3))
  adopted = weights.load_policy_params(s.algorithm, found, fresh)
  jax.tree.map(
    np.testing.assert_array_equal, adopted.params[shared_base.BASE], found
  )
  now = lora.merge(algorithm.full_params(s.algorithm.context, adopted.params))
  jax.tree.map(np.testing.assert_array_equal, now, found)
  old = state.params[shared_base.BASE]['layers']['q']
  assert jnp.max(jnp.abs(found['layers']['q'] - old)) > 0.01


def test_the_bases_name_is_taken():
  c = config()
  of_configs.role(c, shared_base.BASE)
  with errors.raises(ValueError, 'c.role.base'):
    algorithm_lib.make_algorithm(c, setup().shape)
