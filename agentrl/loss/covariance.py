"""Clip-Cov and KL-Cov (2505.22617): PPO that spares high-covariance tokens.

The entropy of a softmax policy falls as advantage and log-prob go together:

  cov_t = (A_t − mean A) (log π_t − mean log π)               (2505.22617)

with means over the trained tokens of the whole batch, of which a sub-update
may train a part. cov is not differentiated.
"""

from typing import Annotated

import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.domain import Number, Real, Share
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs

_register = registry.register(
  'loss', needs=('output:logp', 'signal:old_logp'), takes='any', couples=True
)


def covariance(a, logp, weight) -> Array:
  """Returns cov_t [N, T] over the tokens that weigh, 0 elsewhere."""
  used = (weight > 0).astype(logp.dtype)
  cov = ops.deviation(a, used) * ops.deviation(logp, used)
  return jax.lax.stop_gradient(cov)


def share(fraction: float, weight) -> Array:
  """Returns that fraction of the number of trained tokens, at least one."""
  n = jnp.sum(weight > 0)
  return jnp.maximum(jnp.floor(fraction * n).astype(jnp.int32), 1)


@_register
def clip_cov(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.2,
  fraction: Share = 2e-4,
  least: Annotated[float, Real(most='most')] = 1.0,
  most: Annotated[float, Real(infinite=True)] = 5.0,
) -> Loss:
  """Runs ppo, with 0 for a random few of the tokens that least < cov_t < most.

  Args:
    fraction: of the trained tokens; the chosen are not among those that are
      clipped anyway, and still count in the mean
    least: covariance above which tokens may be spared
    most: covariance below which they may be; inf: any
  """
  value, metrics = ppo.ppo(x, clip_low=clip_low, clip_high=clip_high)
  weight = ppo.weight_of(x)
  cov = covariance(x.credit.token, x.outputs.logp, weight)
  rho = jnp.exp(ppo.log_ratio(x))
  far = -x.credit.token * jnp.clip(rho, 1 - clip_low, 1 + clip_high)
  free = (weight > 0) & (far <= -x.credit.token * rho)
  near = free & (cov > least) & (cov < most)
  noise = jax.random.uniform(x.key, cov.shape)
  spared = segment.top_k_mask(noise, near, share(fraction, weight))
  metrics |= {'spared': ppo.metric(spared, weight)}
  return jnp.where(spared, 0, value), metrics


@registry.register(
  'loss',
  needs=('output:logp', 'signal:old_logp'),
  takes='any',
  couples=True,
  unbounded=True,
)
def kl_cov(
  x: LossInputs, *, fraction: Share = 2e-4, coef: Number = 1.0
) -> Loss:
  """−A ρ, and + coef · |log ρ| on the tokens of largest cov_t; no clipping.

  Args:
    fraction: of the trained tokens
    coef: weight of the penalty
  """
  log_rho, a = ppo.log_ratio(x), x.credit.token
  weight = ppo.weight_of(x)
  cov = covariance(a, x.outputs.logp, weight)
  held = segment.top_k_mask(cov, weight > 0, share(fraction, weight))
  value = -a * jnp.exp(log_rho) + coef * jnp.where(held, jnp.abs(log_rho), 0)
  metrics = {
    'ratio': ppo.metric(jnp.exp(log_rho), weight),
    'held': ppo.metric(held, weight),
  }
  return value, metrics
