"""Reducers: from weights to the coefficients of a sum over a minibatch.

  loss = Σ_nt coefficient_nt · value_nt

Coefficients are computed before the minibatch is cut, so that devices and
micro-batches only add: `total` in agentrl/learner/policy_gradient.py. No weight
at all gives coefficients 0.
"""

import chex
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Count
from agentrl.types import Array, Rows

_register = registry.register('loss_aggregation', takes='any')


def _inverse(x: Array) -> Array:
  return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


def _live(x: Array) -> Array:
  """Returns the number of positive entries."""
  return jnp.sum(x > 0).astype(x.dtype)


@_register
def token_mean(weight: Array, rows: Rows, b: int, k: int) -> Array:
  """w / Σ w: every token counts the same."""
  chex.assert_equal_shape([weight, rows.traj])
  return weight * _inverse(jnp.sum(weight))


@_register
def trajectory_mean(weight: Array, rows: Rows, b: int, k: int) -> Array:
  """1/B_live · w / Σ_{trajectory} w: every trajectory counts the same."""
  chex.assert_equal_shape([weight, rows.traj])
  index = segment.TurnIndex(rows.traj, rows.turn, b, k)
  whole = index.to_trajectories(weight)  # [B]
  each = _inverse(whole) * _inverse(_live(whole))
  return weight * index.trajectories_to_tokens(each)


@_register
def trajectory_turn_mean(weight: Array, rows: Rows, b: int, k: int) -> Array:
  """1/B_live · 1/T_i · w / Σ_{turn} w: the turns of a trajectory share it.

  T_i counts turns with weight; tokens outside of turns get 0.
  """
  chex.assert_equal_shape([weight, rows.traj])
  index = segment.TurnIndex(rows.traj, rows.turn, b, k)
  whole = index.to_turns(weight)  # [B, K]
  turns = jnp.sum((whole > 0).astype(whole.dtype), axis=1, keepdims=True)
  each = _inverse(whole) * _inverse(turns) * _inverse(_live(turns))
  return weight * index.to_tokens(each)


@_register
def fixed(
  weight: Array, rows: Rows, b: int, k: int, *, length: Count = 1024
) -> Array:
  """w / (B_live · length): long trajectories pull more (Dr.GRPO, 2503.20783).

  Args:
    length: the most tokens a trajectory may sample, the same for all batches.
  """
  chex.assert_equal_shape([weight, rows.traj])
  index = segment.TurnIndex(rows.traj, rows.turn, b, k)
  whole = index.to_trajectories(weight)
  return weight * _inverse(_live(whole)) / length
