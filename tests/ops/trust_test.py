"""Trust against the formula in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize(('low', 'high'), [(0.3, 0.8), (0.0, 1.0), (0.5, 0.6)])
def test_trust_rises_from_low_to_high(low, high):
  p = np.linspace(0, 1, 41)
  a, b = Fraction(low), Fraction(high)
  want = [min(max((Fraction(x) - a) / (b - a), 0), 1) for x in p]
  got = ops.trust(p, low=low, high=high)
  np.testing.assert_allclose(got, [float(x) for x in want], rtol=1e-14)


def test_equal_bounds_are_a_step():
  got = ops.trust(np.array([0.4, 0.5, 0.6]), low=0.5, high=0.5)
  np.testing.assert_array_equal(got, [0, 0, 1])
