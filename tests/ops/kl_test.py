"""Divergences against exact expectations in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')


P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
KL = np.sum(P * np.log(P / Q))


@pytest.mark.parametrize('f', [ops.kl_k1, ops.kl_k3])
def test_k1_and_k3_are_unbiased(f):
  got = np.sum(P * f(jnp.log(P), jnp.log(Q)))
  np.testing.assert_allclose(got, KL, rtol=1e-12)


def test_k2_has_the_gradient_of_the_divergence():
  """E[∇ k2] under π, and ∇ KL(softmax(x) ‖ Q)."""

  def sampled(x):
    return jnp.sum(P * ops.kl_k2(jax.nn.log_softmax(x), jnp.log(Q)))

  def exact(x):
    logp = jax.nn.log_softmax(x)
    return jnp.sum(jnp.exp(logp) * (logp - jnp.log(Q)))

  x = jnp.log(P)
  np.testing.assert_allclose(
    jax.grad(sampled)(x), jax.grad(exact)(x), atol=1e-12
  )


def test_k3_is_not_negative_and_ends_at_10():
  x = jnp.linspace(-30, 30, 61)
  got = ops.kl_k3(x, jnp.zeros_like(x))
  assert float(got.min()) >= 0
  assert float(got.max()) == 10


def test_binary_divergences_of_taken_or_not():
  p, mu = R.uniform(0.01, 0.99, (2, 50))
  logp, log_mu = jnp.log(p), jnp.log(mu)
  np.testing.assert_allclose(ops.binary_tv(logp, log_mu), abs(p - mu))
  want = mu * np.log(mu / p) + (1 - mu) * np.log((1 - mu) / (1 - p))
  np.testing.assert_allclose(ops.binary_kl(logp, log_mu), want, atol=1e-12)
  assert np.isfinite(ops.binary_kl(jnp.zeros(1), jnp.full(1, -1e-9))).all()


R = np.random.default_rng(0)
