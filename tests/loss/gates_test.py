"""Gates of the gradient, at points by hand."""

import jax
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from tests.loss import token_inputs


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


@pytest.mark.parametrize('a', [1.0, -1.0])
def test_cispo_caps_the_weight_of_a_token_and_keeps_its_gradient(a):
  """ρ = 3, 1.1, 0.1: the pull is A times the clipped ratio, never 0."""
  inputs = token_inputs.make_tokens(np.log([3.0, 1.1, 0.1]), [a] * 3)
  hp = {'clip_low': 0.5, 'clip_high': 0.2}
  slope = token_inputs.slope_of('cispo', inputs, **hp).logp[0]
  np.testing.assert_allclose(slope, [-1.2 * a, -1.1 * a, -0.5 * a])


def test_sapo_fades_on_both_sides_and_faster_for_bad_tokens():
  """−ρ A sech²(τ (ρ − 1) / 2)"""
  rho, a = np.array([1.0, 3.0, 3.0, 0.2]), np.array([1.0, 1.0, -1.0, -1.0])
  inputs = token_inputs.make_tokens(np.log(rho), a)
  hp = {'tau_positive': 1.0, 'tau_negative': 2.0}
  slope = token_inputs.slope_of('sapo', inputs, **hp).logp[0]
  tau = np.where(a > 0, 1.0, 2.0)
  want = -rho * a / np.cosh(tau * (rho - 1) / 2) ** 2
  np.testing.assert_allclose(slope, want)
  assert abs(slope[2]) < abs(slope[1])
