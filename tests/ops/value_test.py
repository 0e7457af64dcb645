"""Clipped value regression in float64."""

import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')


def test_the_larger_of_two_errors():
  v, goal, old = np.random.default_rng(0).normal(size=(3, 60))
  error, clipped = ops.clipped_error(v, goal, old, 0.3)
  near = np.minimum(np.maximum(v, old - 0.3), old + 0.3)
  want = np.maximum((v - goal) ** 2, (near - goal) ** 2) / 2
  np.testing.assert_allclose(error, want, rtol=1e-12)
  # As verl, TRL and OpenRLHF count: where the clip takes the gradient.
  far = abs(v - old) > 0.3
  np.testing.assert_array_equal(clipped, (near - goal) ** 2 > (v - goal) ** 2)
  assert 0 < np.sum(clipped) < np.sum(far)
