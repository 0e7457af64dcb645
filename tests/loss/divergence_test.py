"""DPPO's mask at points by hand: who went too far, and which way."""

import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize(('name', 'threshold'), [('tv', 0.3), ('kl', 0.2)])
def test_only_who_is_far_and_moves_away_is_masked(name, threshold):
  """From μ = 0.2 to π = 0.6 or 0.25, with A of either sign."""
  now = np.array([0.6, 0.6, 0.25])
  a = np.array([1.0, -1.0, 1.0])
  outputs, batch, credit, signals = token_inputs.make_tokens(np.log(now), a)
  rows = batch.rows.replace(logp=jnp.full((1, 3), np.log(0.2)))
  inputs = outputs, batch.replace(rows=rows), credit, signals
  hp = {'threshold': threshold, 'limit': 2.5}
  slope = token_inputs.slope_of(f'dppo_{name}', inputs, **hp).logp[0]
  np.testing.assert_allclose(slope, [0, 2.5, -1.25], atol=1e-12)
  _, _, metrics = token_inputs.loss_of(f'dppo_{name}', inputs, **hp)
  assert tuple(map(float, metrics['mask'])) == (1.0, 3.0)
  ratio, weight = map(float, metrics['ratio'])
  assert weight == 3.0
  assert ratio == pytest.approx((0.6 + 0.6 + 0.25) / 0.2)
