"""A trust region in probabilities instead of ratios (DPPO, arXiv 2602.04879).

  −sg[ M min(ρ, c) ] A log π,   ρ = π / μ

μ is the policy that wrote the token: the behaviour log-prob, not the
learner's when the update began. M drops a token whose probability moved too
far from μ in the direction of A:

  M = 0 where D > δ and (ρ > 1 if A > 0, ρ < 1 if A < 0), else 1

D is the divergence of two choices, the token taken or any other. A ratio is
noisy for rare tokens, which are hardly moved by it, and blind for likely ones.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.advantage import importance
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals

Loss = tuple[Array, Array, Metrics]

_register = registry.register('loss', needs=('output:logp',), takes='any')


def binary_tv(logp: Array, log_mu: Array) -> Array:
  """|π − μ| of the token taken."""
  return jnp.abs(jnp.exp(logp) - jnp.exp(log_mu))


def binary_kl(logp: Array, log_mu: Array) -> Array:
  """μ log(μ/π) + (1 − μ) log((1 − μ)/(1 − π)), nats; never below 0."""
  mu = jnp.exp(log_mu)
  rest = _log_rest(log_mu) - _log_rest(logp)
  return jnp.maximum(mu * (log_mu - logp) + (1 - mu) * rest, 0)


def _log_rest(logp: Array) -> Array:
  """log(1 − p), p no closer to 1 than rounding allows."""
  return jnp.log(jnp.maximum(-jnp.expm1(logp), jnp.finfo(logp.dtype).eps))


def _masked(divergence, outputs, batch, credit, threshold, limit) -> Loss:
  chex.assert_rank(outputs.logp, 2)
  chex.assert_equal_shape([outputs.logp, credit.token])
  now, a = jax.lax.stop_gradient(outputs.logp), credit.token
  log_mu = importance.behaviour(batch.rows, now)
  log_rho = jnp.clip(now - log_mu, -20, 20)
  d = divergence(now, log_mu)
  out = (d > threshold) & (a * log_rho > 0)
  rho = jnp.minimum(jnp.exp(log_rho), limit)
  weight = ppo.weight_of(batch, credit)
  metrics = {
    'ratio': ppo.metric(jnp.exp(log_rho), weight),
    'divergence': ppo.metric(d, weight),
    'mask': ppo.metric(out, weight),
  }
  return -jnp.where(out, 0, rho) * a * outputs.logp, weight, metrics


@_register
def dppo_tv(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  threshold: domain.Positive = 0.15,
  limit: domain.Width = 20.0,
) -> Loss:
  """DPPO with D = |π − μ|, the binary total variation."""
  return _masked(binary_tv, outputs, batch, credit, threshold, limit)


@_register
def dppo_kl(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  threshold: domain.Positive = 0.05,
  limit: domain.Width = 20.0,
) -> Loss:
  """DPPO with D = KL(μ ‖ π) of taken or not taken, nats."""
  return _masked(binary_kl, outputs, batch, credit, threshold, limit)
