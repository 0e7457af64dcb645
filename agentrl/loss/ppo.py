"""Policy losses on the probability ratio of each token.

  ρ = exp(clip(log π − log π_old, ±20)),  A = credit.token

signals['old_logp'] is the learner's own log-prob when the update began, not
the behaviour log-prob. Only sampled tokens weigh.
"""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals

Loss = tuple[Array, Array, Metrics]

_register = registry.register(
  'loss', needs=('output:logp', 'signal:old_logp'), takes='any'
)


def weight_of(batch: Batch, credit: Credit) -> Array:
  """Weights [N, T] of sampled tokens: what has a log-prob to be moved."""
  return jnp.where(batch.rows.sampled, credit.weight, 0)


def metric(x: Array, weight: Array) -> tuple[Array, Array]:
  """Weighted (sum, weight) of x [N, T], not differentiated."""
  pair = jnp.sum(x * weight), jnp.sum(weight)
  return jax.lax.stop_gradient(pair)


def log_ratio(outputs: Outputs, signals: Signals) -> Array:
  """clip(log π − log π_old, ±20), nats: [N, T]."""
  chex.assert_rank(outputs.logp, 2)
  chex.assert_equal_shape([outputs.logp, signals['old_logp']])
  return jnp.clip(outputs.logp - signals['old_logp'], -20, 20)


def clipped(log_rho, a, clip_low, clip_high) -> Array:
  """max(−A ρ, −A clip(ρ, 1 − c_low, 1 + c_high))"""
  rho = jnp.exp(log_rho)
  return jnp.maximum(-a * rho, -a * jnp.clip(rho, 1 - clip_low, 1 + clip_high))


def ratio_metrics(log_rho, a, weight, clip_low, clip_high) -> Metrics:
  """Mean ratio and KL to the old policy; shares clipped on either side."""
  rho = jnp.exp(log_rho)
  return {
    'ratio': metric(rho, weight),
    'kl_old': metric(rho - 1 - log_rho, weight),
    'clip_low': metric((a < 0) & (rho < 1 - clip_low), weight),
    'clip_high': metric((a > 0) & (rho > 1 + clip_high), weight),
  }


@_register
def ppo(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  clip_low: domain.Width = 0.2,
  clip_high: domain.Width = 0.2,
) -> Loss:
  """max(−A ρ, −A clip(ρ, 1 − c_low, 1 + c_high))   (arXiv 1707.06347)

  Metrics: ratio, kl_old (ρ − 1 − log ρ), and the shares of tokens that are
  clipped from below (A < 0) and from above (A > 0).
  """
  log_rho, a = log_ratio(outputs, signals), credit.token
  weight = weight_of(batch, credit)
  metrics = ratio_metrics(log_rho, a, weight, clip_low, clip_high)
  return clipped(log_rho, a, clip_low, clip_high), weight, metrics


@_register
def ppo_dual(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  clip_low: domain.Width = 0.2,
  clip_high: domain.Width = 0.2,
  dual: Annotated[float, domain.Real(1, above=True, infinite=True)] = 3.0,
) -> Loss:
  """ppo, and where A < 0 no more than −dual · A   (arXiv 1912.09729)

  A bad token that became likely cannot pull without bound.
  """
  log_rho, a = log_ratio(outputs, signals), credit.token
  weight = weight_of(batch, credit)
  value = clipped(log_rho, a, clip_low, clip_high)
  bounded = jnp.where(a < 0, jnp.minimum(value, -dual * a), value)
  metrics = ratio_metrics(log_rho, a, weight, clip_low, clip_high)
  metrics['clip_dual'] = metric((a < 0) & (value > -dual * a), weight)
  return bounded, weight, metrics


@registry.register('loss', needs=('output:logp',), takes='any')
def reinforce(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> Loss:
  """−A log π: one step on the tokens just sampled, nothing clipped."""
  chex.assert_equal_shape([outputs.logp, credit.token])
  return -credit.token * outputs.logp, weight_of(batch, credit), {}
