"""Reducers: from weights to the coefficients of a sum over the whole batch.

  loss = Σ_nt coefficient_nt · value_nt

Coefficients are computed before the batch is cut, so that devices and
micro-batches only add. No weight at all gives coefficients 0.
"""

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.types import Array, Rows

_register = registry.register('reduce', takes='any')


def _inverse(x: Array) -> Array:
  return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


def _trajectories(rows: Rows):
  """Ids that make each trajectory a single turn, prompts included."""
  return rows.traj, jnp.where(rows.traj >= 0, 0, -1)


def _live(x: Array) -> Array:
  """How many entries are positive."""
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
  ids = _trajectories(rows)
  whole = segment.to_turns(weight, *ids, b, 1)  # [B, 1]
  each = _inverse(whole) * _inverse(_live(whole))
  return weight * segment.to_tokens(each, *ids)


@_register
def trajectory_turn_mean(weight: Array, rows: Rows, b: int, k: int) -> Array:
  """1/B_live · 1/T_i · w / Σ_{turn} w: the turns of a trajectory share it.

  T_i counts turns with weight; tokens outside of turns get 0.
  """
  chex.assert_equal_shape([weight, rows.traj])
  whole = segment.to_turns(weight, rows.traj, rows.turn, b, k)  # [B, K]
  turns = jnp.sum((whole > 0).astype(whole.dtype), axis=1, keepdims=True)
  each = _inverse(whole) * _inverse(turns) * _inverse(_live(turns))
  return weight * segment.to_tokens(each, rows.traj, rows.turn)


@_register
def fixed(
  weight: Array, rows: Rows, b: int, k: int, *, length: domain.Count = 1024
) -> Array:
  """w / (B_live · length): long trajectories pull more (Dr.GRPO, 2503.20783).

  Args:
    length: the most tokens a trajectory may sample, the same for all batches.
  """
  chex.assert_equal_shape([weight, rows.traj])
  whole = segment.to_turns(weight, *_trajectories(rows), b, 1)
  return weight * _inverse(_live(whole)) / length
