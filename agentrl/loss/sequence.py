"""Policy losses on one probability ratio for many tokens.

  s = exp( mean over the tokens of a sequence of log π − log π_old )

A sequence is a trajectory, whose tokens may stand in several rows, or a turn,
which stands in one. Its tokens are those that weigh. All of them share s; the
reducer averages their values, so that A may differ between them.
"""

import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.domain import Positive, Width
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs

NEEDS = ('output:logp', 'signal:old_logp')
_register = registry.register('loss', needs=NEEDS, takes='any')
_couples = registry.register('loss', needs=NEEDS, takes='any', couples=True)


def mean_log_ratio(log_rho: Array, x: LossInputs, unit: str) -> Array:
  """Averages log ρ over each unit's tokens of weight, at its tokens."""
  rows, (b, k) = x.batch.rows, x.batch.turns.valid.shape
  mask = ppo.weight_of(x) > 0
  return ops.gspo_log_ratio(
    log_rho, mask, rows.traj, rows.turn, (b, k), unit=unit
  )


def _clipped(log_s, x: LossInputs, clip_low, clip_high) -> Loss:
  a, weight = x.credit.token, ppo.weight_of(x)
  return ppo.clipped(log_s, a, weight, clip_low, clip_high)


@_couples
def gspo(
  x: LossInputs, *, clip_low: ppo.ClipLow = 3e-4, clip_high: ppo.ClipHigh = 4e-4
) -> Loss:
  """max(−A s, −A clip(s, ...)) of trajectories   (GSPO, arXiv 2507.18071)"""
  log_s = mean_log_ratio(ppo.log_ratio(x), x, 'trajectory')
  return _clipped(log_s, x, clip_low, clip_high)


@_register
def gspo_turn(
  x: LossInputs, *, clip_low: ppo.ClipLow = 3e-4, clip_high: ppo.ClipHigh = 4e-4
) -> Loss:
  """Runs gspo whose sequences are turns: rows do not depend on each other."""
  log_s = mean_log_ratio(ppo.log_ratio(x), x, 'turn')
  return _clipped(log_s, x, clip_low, clip_high)


@_couples
def gspo_token(
  x: LossInputs, *, clip_low: ppo.ClipLow = 3e-4, clip_high: ppo.ClipHigh = 4e-4
) -> Loss:
  """gspo with s_t = sg[s] π / sg[π]   (GSPO-token, arXiv 2507.18071)

  The ratio is the trajectory's, the gradient each token's own: advantages
  that differ between tokens move these tokens.
  """
  log_s = mean_log_ratio(ppo.log_ratio(x), x, 'trajectory')
  own = x.outputs.logp - jax.lax.stop_gradient(x.outputs.logp)
  log_s = jax.lax.stop_gradient(log_s) + own
  return _clipped(log_s, x, clip_low, clip_high)


@_couples
def gmpo(x: LossInputs, *, clip: Width = 0.4) -> Loss:
  """−A exp(mean_t d_t) of trajectories   (GMPO, arXiv 2507.20673)

  d_t = min(log ρ_t, c) where A ≥ 0 and max(log ρ_t, −c) where A < 0: the
  geometric mean of ratios that are clipped token by token, on one side.

  Args:
    clip: c, largest log-ratio of a token, nats; inf: any
  """
  weight, a = ppo.weight_of(x), x.credit.token
  log_rho = ppo.log_ratio(x)
  near = jnp.where(
    a < 0, jnp.maximum(log_rho, -clip), jnp.minimum(log_rho, clip)
  )
  s = jnp.exp(mean_log_ratio(near, x, 'trajectory'))
  metrics = {
    'ratio': ppo.metric(s, weight),
    'approx_kl': ppo.metric(jnp.exp(log_rho) - 1 - log_rho, weight),
    'clip': ppo.metric(near != log_rho, weight),
  }
  return -a * s, metrics


@_couples
def ppo_suffix(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.2,
  far: Positive = 2.0,
) -> Loss:
  """max(−M_k s_k, −M_k clip(s_k, ...)) of turns   (SeeUPO, arXiv 2602.06554)

    s_k = Π_{tokens of turn k} ρ,   M_k = sg[A Π_{j > k} s_j]

  The ratio of a turn is the product over its tokens. With the plan
  'reverse_turns' the later turns have been updated before: M_k asks how good
  turn k is now that they are played as they are now.

  Args:
    far: log of the product over later turns is clipped to ±far
  """
  index, valid = segment.index(x.batch), x.batch.turns.valid
  weight = ppo.weight_of(x)
  log_rho = jnp.where(weight > 0, ppo.log_ratio(x), 0)
  log_s = index.to_turns(log_rho)
  still = jax.lax.stop_gradient(log_s)
  later = segment.next_turn(segment.accumulate_turns(still, 1.0, valid), valid)
  suffix = jnp.exp(jnp.clip(later, -far, far))
  suffix = index.to_tokens(suffix)
  log_s = jnp.clip(index.to_tokens(log_s), -20, 20)
  m = x.credit.token * suffix
  value, metrics = ppo.clipped(log_s, m, weight, clip_low, clip_high)
  return value, metrics | {'suffix': ppo.metric(suffix, weight)}
