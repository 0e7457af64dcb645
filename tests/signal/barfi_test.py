"""BARFI's blend: its hypergradient, whom it trusts, and where φ lives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.configs import barfi as barfi_config
from agentrl.configs import base
from agentrl.learner import update
from agentrl.model import policy
from agentrl.signal import barfi
from agentrl.signal.base import Context
from tests import errors
from tests.signal.implicit_prm_test import SHAPE, make_batch

MODULE = policy.module(SHAPE)
CONTEXT = Context(
  {'policy': MODULE}, {'policy': optimizer.OptimizerConfig()}, 4
)
LEARNER = update.Algorithm.from_spec(
  spec=registry.MethodSpec(signal=('blend',)), context=CONTEXT
)
GAMMA, LR = 0.9, 0.1
SIGNAL = barfi.blend(CONTEXT, gamma=GAMMA, lr=LR)
UPDATE = jax.jit(lambda state, batch: SIGNAL.update(state, batch, {}, None)[0])


def _batch(auxiliary):
  made = make_batch()
  r = np.random.default_rng(0)
  primary = jnp.asarray(r.normal(size=made.turns.valid.shape), jnp.float32)
  terms = {'env': primary, 'progress': auxiliary(primary)}
  return made.replace(turns=made.turns.replace(terms=terms))


@pytest.fixture(scope='module')
def state():
  return update.init(LEARNER, jax.random.key(0))


def _updated(state, batch, weight=(0.0, 0.0, 0.0)):
  state = state.replace(signal={'blend': jnp.array(weight)})
  return np.asarray(UPDATE(state, batch).signal['blend'])


def _goals(batch):
  """Returns to go less their mean, [N, T] each, in loops."""
  valid = np.asarray(batch.turns.valid)
  told = batch.turns.terms
  terms = [
    np.ones(valid.shape),
    *map(np.asarray, (told['env'], told['progress'])),
  ]
  out = []
  for x in terms:
    back = np.zeros(valid.shape)
    for i, n in enumerate(valid.sum(1)):
      for k in range(n):
        back[i, k] = sum(GAMMA ** (j - k) * x[i, j] for j in range(k, n))
    back = np.where(valid, back - back[valid].mean(), 0)
    rows = batch.rows
    out.append(np.where(rows.sampled, back[rows.traj, rows.turn], 0))
  return out


def test_the_state_is_the_learners(state):
  np.testing.assert_array_equal(state.signal['blend'], [0, 1, 1])


def test_a_step_climbs_the_slope_of_the_primary_after_an_inner_step(state):
  """By finite differences of φ through θ + η Σ φ g, on the other groups."""
  helper = np.random.default_rng(5).normal(size=(6, 3))
  batch = _batch(lambda x: jnp.asarray(helper, jnp.float32))
  goals, params = _goals(batch), state.params['policy']
  odd = np.asarray(batch.ids['group'])[np.asarray(batch.rows.traj)] == 1

  def total(params, bar):
    return jnp.sum(MODULE.apply(params, batch.rows, ('logp',)).logp * bar)

  both = jax.jit(jax.value_and_grad(total))
  outer, eta, want = np.where(odd, goals[1], 0), 1e-4, []
  for goal in goals:
    g = both(params, np.where(odd, 0, goal))[1]
    there, back = (
      both(jax.tree.map(lambda x, y, s=s: x + s * eta * y, params, g), outer)[0]
      for s in (1, -1)
    )
    want.append(float(there - back) / (2 * eta))
  assert max(map(abs, want)) > 0.5
  got = _updated(state, batch)
  np.testing.assert_allclose(
    got, LR * np.array(want) / np.abs(want).max(), atol=0.02 * LR
  )


def test_a_helper_is_trusted_as_far_as_it_agrees(state):
  """One that is the primary, and one that is its opposite."""
  same = _updated(state, _batch(lambda x: x))
  opposite = _updated(state, _batch(lambda x: -x))
  np.testing.assert_allclose(same[1], same[2], rtol=1e-3)
  np.testing.assert_allclose(opposite, same * [1, 1, -1], rtol=1e-3)
  assert np.abs(same[2]) > 1e-3


def test_weights_stay_within_their_bound_and_without_a_slope_as_they_are(state):
  got = _updated(state, _batch(lambda x: x), (5.0, -5.0, 0.5))
  np.testing.assert_array_equal(got[:2], [1, -1])
  batch = _batch(lambda x: 0 * x)
  terms = {name: jnp.zeros_like(x) for name, x in batch.turns.terms.items()}
  batch = batch.replace(turns=batch.turns.replace(terms=terms))
  got = _updated(state, batch, (0.0, 1.0, 0.5))
  np.testing.assert_array_equal(got, [0, 1, 0.5])


def test_the_step_does_not_depend_on_the_size_of_rewards(state):
  batch = _batch(lambda x: -x)
  terms = {name: 1e-3 * x for name, x in batch.turns.terms.items()}
  small = batch.replace(turns=batch.turns.replace(terms=terms))
  np.testing.assert_allclose(
    np.abs(_updated(state, small)).max(), LR, rtol=1e-5
  )


def test_the_reward_is_the_blend(state):
  batch = _batch(lambda x: 2 - x)
  scored = batch.turns.scored.at[0, 0].set(False)
  batch = batch.replace(turns=batch.turns.replace(scored=scored))
  state = state.replace(signal={'blend': jnp.array([0.1, 0.5, -2.0])})
  fields, metrics = SIGNAL.score(state, batch, {})
  terms = batch.turns.terms
  want = 0.1 + 0.5 * terms['env'] - 2.0 * terms['progress']
  want = np.where(batch.turns.valid & scored, want, 0)
  np.testing.assert_allclose(fields['blend'], want, rtol=1e-6)
  assert float(metrics['blend/auxiliary'][0]) == -2.0


def test_attention_can_be_differentiated_forwards():
  c = barfi_config.get_config('tiny')
  registry.check(base.wiring(c), c)
  c.model.attention = 'flash'
  with errors.raises(ValueError, 'xla flash'):
    registry.check(base.wiring(c), c)
