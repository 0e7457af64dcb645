"""Estimators of the KL divergence at a point by hand."""

import jax
import numpy as np
import pytest

from tests.loss import token_inputs


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def test_kl_estimators_at_a_hand_computed_point():
  inputs = token_inputs.make_tokens([-1.0, -4.0], [0.0, 0.0], ref=-2.0)
  want = {
    'kl_k1': [1.0, -2.0],
    'kl_k2': [0.5, 2.0],
    'kl_k3': [np.exp(-1), np.exp(2) - 3],
  }
  for name, expected in want.items():
    value, _, metrics = token_inputs.loss_of(name, inputs)
    np.testing.assert_allclose(value[0], expected)
    np.testing.assert_allclose(metrics['kl'], (sum(expected), 2.0))
  value, _, _ = token_inputs.loss_of(
    'kl_k3', token_inputs.make_tokens([-9.0], [0.0])
  )
  assert float(value[0, 0]) == 10.0
