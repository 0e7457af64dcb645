"""The state that stages share: what goes on, and what begins afresh."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import optimizer, registry
from agentrl.learner import update
from agentrl.learner.algorithm import Algorithm
from agentrl.mesh import Param
from agentrl.run.stage import stage_state
from agentrl.signal.base import Context
from agentrl.types import Module
from tests import errors


def module(size):
  init = lambda key, shape: jax.random.normal(key, shape)  # noqa: E731
  return Module({'w': Param((size,), (None,), init)}, lambda *_: None)


def algorithm(signals=(), hp=None, loaded=(), **roles):
  """One whose roles have these sizes; all are trained."""
  rule = optimizer.OptimizerConfig(lr=0.1)
  context = Context(
    {name: module(size) for name, size in roles.items()},
    dict.fromkeys(roles, rule),
    1,
    loaded=frozenset(loaded),
  )
  spec = registry.MethodSpec(signal=signals, hp=hp or {})
  return Algorithm.from_spec(spec, context, seed=0)


def test_the_state_has_the_roles_of_every_stage():
  one, two = algorithm(policy=3, critic=2), algorithm(policy=3, other=3)
  state = update.init(stage_state.union([one, two]), jax.random.key(1))
  assert set(state.params) == set(state.opt) == {'policy', 'critic', 'other'}
  alone = update.init(one, jax.random.key(1))
  for role in ('policy', 'critic'):
    np.testing.assert_array_equal(
      state.params[role]['w'], alone.params[role]['w']
    )
  assert stage_state.union([one]).context.modules == one.context.modules


def trained(state):
  """The state after some training: every role has gone its own way."""

  def moved(x, by):
    return jax.tree.map(
      lambda y: y + by if jnp.issubdtype(y.dtype, jnp.floating) else y, x
    )

  trees = {
    name: {r: moved(tree[r], i + 1) for i, r in enumerate(sorted(tree))}
    for name, tree in (('params', state.params), ('opt', state.opt))
  }
  return state.replace(**trees)


def test_roles_go_on_or_begin_as_the_policy():
  alg = algorithm(
    policy=3, critic=3, reference=3, teacher=3, loaded=['teacher']
  )
  whole = stage_state.union([alg, algorithm(policy=3, extra=2)])
  state = trained(update.init(whole, jax.random.key(1)))
  begun = update.init_roles_from_policy(alg, state, {'critic', 'absent'})
  policy = np.asarray(state.params['policy']['w'])
  for role in ('policy', 'reference'):
    np.testing.assert_array_equal(begun.params[role]['w'], policy)
  for role in ('critic', 'teacher', 'extra'):
    np.testing.assert_array_equal(
      begun.params[role]['w'], state.params[role]['w']
    )
    assert not np.array_equal(begun.params[role]['w'], policy)
  fresh = optimizer.init(
    alg.context.rules['critic'],
    begun.params['critic'],
    alg.context.modules['critic'].specs,
  )
  for role in ('policy', 'critic', 'reference'):
    jax.tree.map(np.testing.assert_array_equal, begun.opt[role], fresh)
  kept = begun.opt['extra'], state.opt['extra']
  jax.tree.map(np.testing.assert_array_equal, *kept)


def test_signals_of_one_name_have_one_state():
  one, other = (
    algorithm(
      ('entropy_history',),
      {'signal': {'entropy_history': {'turns': turns}}},
      policy=3,
    )
    for turns in (8, 9)
  )
  assert set(stage_state.union([one, one]).signals) == {'entropy_history'}
  with errors.raises(ValueError, 'entropy_history'):
    stage_state.union([one, other])
