"""Policy-gradient objectives on the probability ratio of a token.

ρ = π / π_old,   A the advantage; all are losses, to be minimised
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import segment
from agentrl.types import Array


def log_ratio(logp: Array, old_logp: Array) -> Array:
  """log ρ = clip(log π − log π_old, ±20), nats."""
  chex.assert_equal_shape([logp, old_logp])
  return jnp.clip(logp - old_logp, -20, 20)


def ppo_clip(
  log_ratio: Array,
  advantage: Array,
  *,
  low: float | Array = 0.2,
  high: float | Array = 0.2,
) -> Array:
  """max(−A ρ, −A clip(ρ, 1 − low, 1 + high))   (PPO, arXiv 1707.06347)

  Args:
    low, high: widths of the clip, of all tokens or of each
  """
  chex.assert_equal_shape([log_ratio, advantage])
  a, rho = advantage, jnp.exp(log_ratio)
  return jnp.maximum(-a * rho, -a * jnp.clip(rho, 1 - low, 1 + high))


def ppo_dual_clip(
  log_ratio: Array,
  advantage: Array,
  *,
  low: float = 0.2,
  high: float = 0.2,
  dual: float = 3.0,
) -> Array:
  """ppo_clip, and where A < 0 no more than −dual · A   (arXiv 1912.09729)"""
  loss = ppo_clip(log_ratio, advantage, low=low, high=high)
  bound = -dual * advantage
  return jnp.where(advantage < 0, jnp.minimum(loss, bound), loss)


def cispo(
  logp: Array,
  log_ratio: Array,
  advantage: Array,
  *,
  low: float = 10.0,
  high: float = 0.2,
) -> Array:
  """−sg[clip(ρ, 1 − low, 1 + high)] A log π   (CISPO, arXiv 2506.13585)"""
  chex.assert_equal_shape([logp, log_ratio, advantage])
  rho = jnp.clip(jnp.exp(log_ratio), 1 - low, 1 + high)
  return -jax.lax.stop_gradient(rho) * advantage * logp


def gspo_log_ratio(
  log_ratio: Array,
  mask: Array,
  traj: Array,
  turn: Array,
  shape: tuple[int, int],
  *,
  unit: str = 'trajectory',
) -> Array:
  """Averages log ρ over the masked tokens of a sequence (arXiv 2507.18071).

  Args:
    log_ratio, mask, traj, turn: [N, T]; traj and turn are -1 outside
    shape: (B, K), how many trajectories and turns there may be
    unit: 'trajectory' or 'turn', the sequence that has one ratio
  Returns: [N, T], the sequence's value at each of its tokens
  """
  chex.assert_equal_shape([log_ratio, mask, traj, turn])
  b, k = shape
  index = segment.TurnIndex(traj, turn, b, k).unit(unit)
  return index.mean_within(log_ratio, mask)
