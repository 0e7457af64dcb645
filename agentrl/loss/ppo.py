"""Policy losses on the probability ratio of each token.

  ρ = exp(clip(log π − log π_old, ±20)),  A = credit.token

signals['old_logp'] is the learner's own log-prob when the update began; with
c.staleness.anchor='behaviour' it is the behaviour log-prob. In the first step
of a batch of one minibatch ρ is 1. Only sampled tokens weigh.
"""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.domain import Real, Width
from agentrl.types import Array, Loss, LossInputs, Metrics

# Hyper-parameters of losses that clip a ratio.
ClipLow = Annotated[Width, 'the ratio is clipped from below at 1 − clip_low']
ClipHigh = Annotated[Width, 'the ratio is clipped from above at 1 + clip_high']

_register = registry.register(
  'loss', needs=('output:logp', 'signal:old_logp'), takes='any'
)


def weight_of(x: LossInputs) -> Array:
  """Returns weights [N, T] of sampled tokens: what has a log-prob to be moved.

  The weights of every loss that does not declare others.
  """
  return jnp.where(x.batch.rows.sampled, x.credit.weight, 0)


def weights(name: str, x: LossInputs) -> Array:
  """Returns weights [N, T] that the loss registered under `name` declares."""
  return (registry.get('loss', name).weight or weight_of)(x)


def metric(x: Array, weight: Array) -> tuple[Array, Array]:
  """Weighs x [N, T] into (sum, weight), not differentiated."""
  pair = jnp.sum(x * weight), jnp.sum(weight)
  return jax.lax.stop_gradient(pair)


def log_ratio(x: LossInputs) -> Array:
  """clip(log π − log π_old, ±20), nats: [N, T]."""
  logp, old = x.outputs.logp, x.signals['old_logp']
  chex.assert_rank(logp, 2)
  return ops.log_ratio(logp, old)


def ratio_metrics(log_rho, a, weight, clip_low, clip_high) -> Metrics:
  """Measures ratio and KL to the old policy; shares clipped on either side."""
  rho = jnp.exp(log_rho)
  return {
    'ratio': metric(rho, weight),
    'approx_kl': metric(rho - 1 - log_rho, weight),
    'clip_frac_low': metric((a < 0) & (rho < 1 - clip_low), weight),
    'clip_frac_high': metric((a > 0) & (rho > 1 + clip_high), weight),
  }


def clipped(
  log_rho, a, weight, clip_low: float | Array, clip_high: float | Array
) -> Loss:
  """Computes `ops.ppo_clip` of a ratio, with its metrics."""
  value = ops.ppo_clip(log_rho, a, low=clip_low, high=clip_high)
  return value, ratio_metrics(log_rho, a, weight, clip_low, clip_high)


@_register
def ppo(
  x: LossInputs, *, clip_low: ClipLow = 0.2, clip_high: ClipHigh = 0.2
) -> Loss:
  """max(−A ρ, −A clip(ρ, 1 − c_low, 1 + c_high))   (arXiv 1707.06347)

  Metrics: ratio, approx_kl (ρ − 1 − log ρ), and the shares of tokens that are
  clipped from below (A < 0) and from above (A > 0).
  """
  log_rho, a = log_ratio(x), x.credit.token
  return clipped(log_rho, a, weight_of(x), clip_low, clip_high)


@_register
def ppo_dual(
  x: LossInputs,
  *,
  clip_low: ClipLow = 0.2,
  clip_high: ClipHigh = 0.2,
  dual: Annotated[float, Real(1, above=True, infinite=True)] = 3.0,
) -> Loss:
  """Computes ppo, and where A < 0 no more than −dual · A   (arXiv 1912.09729)

  A bad token that became likely cannot pull without bound.

  Args:
    dual: multiple of −A that bounds the loss of a bad token
  """
  log_rho, a = log_ratio(x), x.credit.token
  weight = weight_of(x)
  value, metrics = clipped(log_rho, a, weight, clip_low, clip_high)
  metrics['clip_dual'] = metric((a < 0) & (value > -dual * a), weight)
  return ops.ppo_dual_clip(
    log_rho, a, low=clip_low, high=clip_high, dual=dual
  ), metrics


@registry.register('loss', needs=('output:logp',), takes='any', unbounded=True)
def reinforce(x: LossInputs) -> Loss:
  """−A log π: one step on the tokens just sampled, nothing clipped."""
  chex.assert_equal_shape([x.outputs.logp, x.credit.token])
  return -x.credit.token * x.outputs.logp, {}
