"""Policy objectives against loops in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')


R = np.random.default_rng(0)
LOG_RHO, A, LOGP = R.normal(size=(3, 5, 7)) * np.reshape([0.4, 2, 1], (3, 1, 1))


def _ppo(d, a, low, high):
  rho = np.exp(d)
  return max(-a * rho, -a * min(max(rho, 1 - low), 1 + high))


def test_log_ratio_ends_at_20_nats():
  got = ops.log_ratio(jnp.array([1.5, 90.0, -90.0]), jnp.array([1.0, 0, 0]))
  np.testing.assert_array_equal(got, [0.5, 20.0, -20.0])


def test_ppo_clip():
  got = ops.ppo_clip(LOG_RHO, A, low=0.1, high=0.3)
  want = np.vectorize(lambda d, a: _ppo(d, a, 0.1, 0.3))(LOG_RHO, A)
  np.testing.assert_allclose(got, want, rtol=1e-12)
  slope = jax.grad(lambda d: ops.ppo_clip(d, jnp.array([1.0, 1.0])).sum())
  np.testing.assert_allclose(slope(jnp.log(jnp.array([1.1, 1.3]))), [-1.1, 0])


def test_ppo_dual_clip_bounds_what_is_bad():
  got = ops.ppo_dual_clip(LOG_RHO, A, low=0.1, high=0.3, dual=1.2)
  plain = np.vectorize(lambda d, a: _ppo(d, a, 0.1, 0.3))(LOG_RHO, A)
  want = np.where(A < 0, np.minimum(plain, -1.2 * A), plain)
  np.testing.assert_allclose(got, want, rtol=1e-12)
  assert np.any(want != plain)


def test_cispo_keeps_every_gradient():
  f = lambda x: jnp.sum(ops.cispo(x, x - LOGP + LOG_RHO, A, low=0.2))  # noqa: E731
  want = -np.clip(np.exp(LOG_RHO), 0.8, 1.2) * A
  np.testing.assert_allclose(jax.grad(f)(jnp.asarray(LOGP)), want, rtol=1e-12)


@pytest.mark.parametrize('unit', ['trajectory', 'turn'])
def test_gspo_log_ratio(unit):
  """Two trajectories of two turns in three rows, with a token left out."""
  traj = np.array([[0, 0, 0, -1], [1, 1, 1, 0], [0, 1, -1, -1]])
  turn = np.array([[0, 0, 1, -1], [0, 0, 0, 1], [-1, 1, -1, -1]])
  x, mask = R.normal(size=traj.shape), turn >= 0
  mask[0, 1] = False
  got = ops.gspo_log_ratio(
    *map(jnp.asarray, (x, mask, traj, turn)), (2, 2), unit=unit
  )
  for at in zip(*np.nonzero(mask), strict=True):
    same = mask & (traj == traj[at])
    if unit == 'turn':
      same &= turn == turn[at]
    np.testing.assert_allclose(got[at], x[same].mean(), rtol=1e-12)


def test_shapes_that_differ_are_refused():
  with pytest.raises(AssertionError):
    ops.ppo_clip(jnp.zeros((2, 3)), jnp.zeros((2,)))
