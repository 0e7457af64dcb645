"""The bound of a ratio by trust, token by token, and its slope there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.testing import batches
from agentrl.types import Agent, Credit, Outputs
from tests.advantage.roles import with_roles

pytestmark = pytest.mark.usefixtures('float64')
STORY = batches.story()
HP = {'clip_low': 0.1, 'clip_high': 0.2, 'wider': 0.3, 'of': 'solved'}


def inputs(layout):
  laid, p, agent = with_roles(STORY, layout, 'solved')
  laid = jax.tree.map(jnp.asarray, laid)
  rows = laid.batch.rows
  credit = Credit(
    turn=jnp.zeros(laid.batch.turns.valid.shape),
    token=laid.tokens['prm'],
    weight=jnp.asarray(rows.weight),
    target={},
  )
  outputs = Outputs(logp=laid.tokens['logp'])
  return (outputs, laid.batch, credit, laid.signals), laid, p, agent


def bounds(p, agent):
  """1 + clip_high + wider (1 - u) of every trajectory."""
  u = np.clip((p - 0.3) / 0.5, 0, 1)
  return 1.2 + 0.3 * np.where(agent == Agent.SOLVER, 1 - u, 0)


@pytest.mark.parametrize('layout', ['packed', 'turn'])
def test_ambiguous_labels_have_a_looser_upper_bound(layout):
  x, laid, p, agent = inputs(layout)
  got, _, metrics = batches.loss('ppo_by_trust', x, **HP)
  got = batches.read(got, STORY, laid)
  high, beyond = bounds(p, agent), 0
  assert {round(h, 6) for h in high} > {1.2, 1.5}
  for i, turns in enumerate(STORY.token['logp']):
    for k, logp in enumerate(turns):
      rho = np.exp(logp - STORY.token['old_logp'][i][k])
      a = STORY.token['prm'][i][k]
      want = np.maximum(-a * rho, -a * np.clip(rho, 0.9, high[i]))
      np.testing.assert_allclose(got[i][k], want, rtol=1e-12)
      beyond += np.sum((a > 0) & (rho > high[i]))
  total, weight = metrics['clip_frac_high']
  assert int(total) == beyond > 0
  assert int(weight) == sum(map(sum, STORY.size))


def test_its_slope_is_that_of_finite_differences():
  x, laid, _, _ = inputs('history')
  outputs, *rest = x

  @jax.jit
  def total(logp):
    value, weight, _ = batches.loss(
      'ppo_by_trust', (Outputs(logp=logp), *rest), **HP
    )
    return jnp.sum(value * weight)

  logp = jnp.asarray(outputs.logp)
  slope = np.asarray(jax.jit(jax.grad(total))(logp))
  step = 1e-6
  for at in np.argwhere(laid.batch.rows.sampled)[::7]:
    up, down = (total(logp.at[tuple(at)].add(sign * step)) for sign in (1, -1))
    want = (up - down) / (2 * step)
    np.testing.assert_allclose(slope[tuple(at)], want, rtol=1e-5, atol=1e-8)
  assert not slope[~np.asarray(laid.batch.rows.sampled)].any()
