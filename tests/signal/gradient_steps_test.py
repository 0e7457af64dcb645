"""Steps of a role on all rows, against plain gradient descent by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.signal import gradient_steps
from tests.signal import tables


def loss(out, rows, target):
  live = rows.sampled[..., None]
  error = jnp.where(live, out.value - target, 0)
  return jnp.sum(error**2), {'error': (jnp.sum(jnp.abs(error)), jnp.sum(live))}


def fit(steps):
  state = tables.make_state()
  target = jnp.ones((*tables.SHAPE, 1))
  batch = jax.tree.map(jnp.asarray, tables.LAID.batch)
  return state, gradient_steps.fit(
    tables.CONTEXT, 'value', state, batch, target, loss, ('value',), steps
  )


def test_only_the_role_that_learns_moves():
  state, (after, metrics) = fit(1)
  assert (
    after.params['value']['table'] != state.params['value']['table']
  ).any()
  for role in ('policy', 'reference'):
    assert after.params[role] is state.params[role]
  assert set(metrics) >= {'value/loss', 'value/error'}
  assert after.step == state.step


def test_more_steps_come_nearer_and_their_losses_are_summed():
  _, (_, one) = fit(1)
  _, (_, five) = fit(5)
  total, count = map(float, five['value/loss'])
  first = float(one['value/loss'][0])
  assert count == 5
  assert 0 < total < 5 * first


def test_a_loss_of_all_rows_takes_the_same_step():
  state, (want, _) = fit(2)
  batch = jax.tree.map(jnp.asarray, tables.LAID.batch)
  target = jnp.ones((*tables.SHAPE, 1))
  got, _ = gradient_steps.fit_coupled(
    tables.CONTEXT,
    'value',
    state,
    batch,
    lambda out: loss(out, batch.rows, target),
    ('value',),
    2,
  )
  np.testing.assert_allclose(
    got.params['value']['table'], want.params['value']['table'], rtol=1e-5
  )
