"""Divergences of a policy from another, on the tokens it sampled.

Estimators of KL(π ‖ π_ref) with d = clip(log π_ref − log π, ±20), nats:
http://joschu.net/blog/kl-approx.html. The binary divergences distinguish only
the token taken from all others, and do not bound the rest.
"""

import jax.numpy as jnp

from agentrl.ops.policy import log_ratio
from agentrl.types import Array


def kl_k1(logp: Array, ref_logp: Array) -> Array:
  """Computes k1 = −d: unbiased, but its mean gradient is zero."""
  return -log_ratio(ref_logp, logp)


def kl_k2(logp: Array, ref_logp: Array) -> Array:
  """Computes k2 = d²/2, with the mean gradient of KL(π ‖ π_ref)."""
  return jnp.square(log_ratio(ref_logp, logp)) / 2


def kl_k3(logp: Array, ref_logp: Array) -> Array:
  """Computes k3 = clip(exp(d) − d − 1, ±10), never negative (2402.03300)."""
  d = log_ratio(ref_logp, logp)
  return jnp.clip(jnp.exp(d) - d - 1, -10, 10)


def binary_tv(logp: Array, log_mu: Array) -> Array:
  """Computes |π − μ| of the token taken."""
  return jnp.abs(jnp.exp(logp) - jnp.exp(log_mu))


def binary_kl(logp: Array, log_mu: Array) -> Array:
  """Computes μ log(μ/π) + (1 − μ) log((1 − μ)/(1 − π)), nats, at least 0."""

  def log_rest(logp):  # log(1 − p), p no closer to 1 than rounding allows
    return jnp.log(jnp.maximum(-jnp.expm1(logp), jnp.finfo(logp.dtype).eps))

  mu = jnp.exp(log_mu)
  rest = log_rest(log_mu) - log_rest(logp)
  return jnp.maximum(mu * (log_mu - logp) + (1 - mu) * rest, 0)
