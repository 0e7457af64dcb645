"""Gates of the gradient, at points by hand."""

import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')


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
