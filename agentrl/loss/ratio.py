"""PPO's clip, changed at the ratio of a token or of those after it."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl import mesh, ops, registry, segment
from agentrl.domain import Discount, Number, Share, Width
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs

_NEEDS = ('output:logp', 'signal:old_logp')


@registry.register('loss', needs=_NEEDS, takes='any')
def ppo_balanced(
  x: LossInputs, *, clip_low: ppo.ClipLow = 0.2, clip_high: ppo.ClipHigh = 0.2
) -> Loss:
  """Takes ppo's value; its gradient also where ρ went too far up (2510.14545).

  Where A > 0 and ρ > 1 + c_high the value is −A (1 + c_high) ρ / sg(ρ), whose
  slope in log π is −A (1 + c_high) and not 0: tokens that were uncertain are
  the ones that get there.
  """
  value, metrics = ppo.ppo(x, clip_low=clip_low, clip_high=clip_high)
  rho, a = jnp.exp(ppo.log_ratio(x)), x.credit.token
  scaled = -a * (1 + clip_high) * rho / jax.lax.stop_gradient(rho)
  high = (a > 0) & (rho > 1 + clip_high)
  return jnp.where(high, scaled, value), metrics


def zscore(x, weight) -> Array:
  """Standardizes x over the tokens that weigh; 0 elsewhere and if all equal."""
  used = weight > 0
  n = jnp.maximum(jnp.sum(used), 2).astype(x.dtype)
  away = ops.deviation(x, used.astype(x.dtype))
  std = jnp.sqrt(jnp.sum(jnp.square(away)) / (n - 1))
  return away / jnp.where(std > 0, std, 1)


@registry.register('loss', needs=_NEEDS, takes='any', couples=True)
def ppo_future(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.2,
  coef: Number = 0.1,
  gamma: Discount = 0.9,
  future_clip: Width = 0.5,
) -> Loss:
  """ppo with A_t (1 + coef · z(ω_t)), ω_t `segment.future_ratios` (2606.12384).

  A token whose continuation the update has made likelier weighs more. In the
  first sub-update every ratio is one and this is ppo.

  Args:
    coef: share of A that one deviation of ω adds
    gamma: discount of later tokens, per token
    future_clip: how far ω may be from 1; inf: any
  """
  log_rho = ppo.log_ratio(x)
  omega = segment.future_ratios(log_rho, x.batch, gamma=gamma, clip=future_clip)
  weight = ppo.weight_of(x)
  token = x.credit.token * (1 + coef * zscore(omega, weight))
  x = x.replace(credit=x.credit.replace(token=token))
  value, metrics = ppo.ppo(x, clip_low=clip_low, clip_high=clip_high)
  return value, metrics | {'future': ppo.metric(omega, weight)}


def of_sampler(spec: registry.MethodSpec, config: Any) -> str:
  """Says that ratios are not to the policy that sampled; '' if they are."""
  s = config.staleness
  if not s.bound or s.anchor == 'behaviour':
    return ''
  return (
    "staleness.anchor must be 'behaviour' for loss 'ppo_stale', whose clip"
    f' shrinks with the ratio to the sampler, got {s.anchor!r}'
  )


def shrinkage(log_rho: Array, used: Array, tail: float) -> Array:
  """Returns c [N, T] in (0, 1], undifferentiated: 1 but in |log ρ|'s tail.

    c = 1 / (1 + (|log ρ| / q)²) where |log ρ| > q > 0, else 1

  q is the quantile 1 − tail of |log ρ|, nats, over the `used` tokens.
  """
  d = jnp.abs(jax.lax.stop_gradient(log_rho))

  def quantile(x):
    return jnp.nan_to_num(jnp.nanquantile(x, 1 - tail))  # 0 of no token

  q = mesh.auto(quantile, None)(jnp.where(used, d, jnp.nan))
  far = (d > q) & (q > 0)
  return jnp.where(far, 1 / (1 + jnp.square(d / jnp.where(q > 0, q, 1))), 1)


@registry.register(
  'loss', needs=_NEEDS, takes='any', couples=True, check=of_sampler
)
def ppo_stale(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.2,
  tail: Share = 0.1,
) -> Loss:
  """Runs ppo whose clip is c times as wide for the stalest tokens (2607.18722).

  max(−A ρ, −A clip(ρ, 1 − c · c_low, 1 + c · c_high)), c the `shrinkage`: the
  tokens whose ratio is furthest from 1 in the batch, compared with the rest,
  stop earlier. Of a token only the end that the sign of A selects acts, and
  where the policy comes back towards the sampler none does. If every ratio is
  1 this is ppo.

  After SAT as its abstract and reviews describe it: a detached |log ρ| to the
  sampler, the quantile 0.9, a Hill kernel of exponent 2. They do not give the
  kernel's equation; the standard Hill function is used.

  Args:
    tail: share of tokens with the largest |log ρ|, whose clip shrinks
  """
  log_rho, weight = ppo.log_ratio(x), ppo.weight_of(x)
  c = shrinkage(log_rho, weight > 0, tail)
  value, metrics = ppo.clipped(
    log_rho, x.credit.token, weight, c * clip_low, c * clip_high
  )
  return value, metrics | {'width': ppo.metric(c, weight)}
