"""Newton's method against a general optimiser, in float64."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from agentrl.ops import logistic

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize('ridge', [1e-3, 1.0, 1e3])
def test_it_minimises_the_penalised_cross_entropy(ridge):
  r = np.random.default_rng(0)
  x, offset = r.normal(size=(40, 4)), r.normal(size=40)
  x[:, 0] = 1
  y, weight = r.integers(0, 2, 40) * 1.0, r.uniform(size=40)
  weight[:5] = 0

  def loss(w):
    z = offset + x @ w
    each = np.logaddexp(0, z) - y * z
    return np.sum(weight * each) + ridge * np.sum(w**2) / 2

  got = logistic.fit(
    *map(jnp.asarray, (x, y)), weight=weight, offset=offset, ridge=ridge
  )
  want = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-12).x
  np.testing.assert_allclose(got, want, atol=1e-5)
  assert loss(np.asarray(got)) <= loss(want) + 1e-12


def test_separable_outcomes_stay_finite():
  x = np.array([[1.0, -50.0], [1.0, 50.0]])
  got = logistic.fit(
    x, np.array([0.0, 1.0]), weight=np.ones(2), offset=np.zeros(2), ridge=1e-6
  )
  assert np.all(np.isfinite(got))
  assert got[1] > 0.1


def test_without_data_it_stays_at_zero():
  got = logistic.fit(
    np.ones((3, 2)),
    np.ones(3),
    weight=np.zeros(3),
    offset=np.ones(3),
    ridge=1.0,
  )
  np.testing.assert_array_equal(got, 0)
