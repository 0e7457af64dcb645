"""Slots of a method, bound: which piece with which numbers, and bound anew."""

import jax.numpy as jnp
import numpy as np

import agentrl.loss
import agentrl.signal  # noqa: F401  registers the signals
from agentrl import optimizer, registry, schedule
from agentrl.learner import algorithm
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs, Share
from tests import batches


def apply(params, rows, needs):
  return Outputs(logp=params * rows)


SPEC = registry.MethodSpec(
  advantage=('a',),
  stream={'a': ('turn_reward', 'center')},
  loss=('ppo', 'entropy'),
  loss_aggregation={'entropy': 'trajectory_mean'},
)


def test_every_slot_is_bound_and_terms_are_reduced_as_they_say():
  alg = algorithm.Algorithm.from_spec(SPEC, Context({}, {}, 1), seed=3)
  assert list(alg.losses) == ['ppo', 'entropy']
  assert len(alg.streams['a']) == 2
  assert alg.seed == 3
  batch = batches.lay(batches.story()).batch
  args = (
    batch.rows.weight.astype(np.float32),
    batch.rows,
    *batch.turns.reward.shape,
  )
  means = {'entropy': 'trajectory_mean', 'ppo': 'token_mean'}
  for term, name in means.items():
    reduce = registry.bind('loss_aggregation', name, {})
    np.testing.assert_array_equal(alg.reduce[term](*args), reduce(*args))
  assert (alg.reduce['ppo'](*args) != alg.reduce['entropy'](*args)).any()


def test_rebound_it_has_the_new_piece_and_keeps_its_numbers():
  alg = algorithm.Algorithm.from_spec(
    SPEC, Context({}, {}, 1), coef={'ppo': 0.5}, start=7
  )
  other = alg.rebind(spec=SPEC._replace(loss=('reinforce',)))
  assert list(other.losses) == ['reinforce']
  assert (other.coef, other.start) == ({'ppo': 0.5}, 7)


def test_shared_parameters_are_joined_once_for_all_roles():
  share = Share('base', lambda own, base: own + base)
  modules = {
    'policy': Module({}, apply, share),
    'base': Module({}, apply),
  }
  context = Context(modules, {}, 1)
  params = {'policy': jnp.float32(2), 'base': jnp.float32(10)}
  assert algorithm.full_params(context, params) == 12
  assert algorithm.full_params(context, params, 'base') == 10
  alg = algorithm.Algorithm.from_spec(SPEC, context)
  own = algorithm.bind_shared_params(alg, params).context.modules['policy']
  assert own.share is None
  assert own.apply(jnp.float32(2), 3, ()).logp == 36


def test_no_slot_is_bound_again_for_networks_or_rates():
  """Of another context signals alone are made anew, from what was bound."""
  alg = algorithm.Algorithm.from_spec(
    SPEC._replace(signal=('entropy_history',)),
    Context({}, {'policy': optimizer.OptimizerConfig()}, 1),
    schedules={'role.policy.lr': ('linear', 1.0, 3.0, 4)},
  )
  now = schedule.resolve(alg, 1)
  assert now.context.rules['policy'].lr == 1.5
  for field in ('streams', 'losses', 'reduce', 'minibatch', 'bound_signals'):
    assert getattr(now, field) is getattr(alg, field)
  assert set(now.signals) == {'entropy_history'}
