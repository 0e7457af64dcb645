"""The same messages, read in another context than they were written in."""

import jax
import jax.numpy as jnp

from agentrl.rollout import record as record_lib
from agentrl.rollout.record import Record
from agentrl.types import Array, Rows


def nulled_turns(r: Record, null: Array, version) -> Rows:
  """Every message after `null` alone; contexts are one observation each.

  Rows as in `record.per_turn`; the first turn, whose observation answers
  nobody, is left out. Nothing is trained on.

  Args:
    null: [l] i32, the tokens that stand for an observation; l <= C
  """
  near = _replace(r, null, jnp.ones_like(r.valid))
  near = near.replace(valid=r.valid & (_turn(r) > 0))
  return record_lib.rows(near, record_lib.per_turn(near), version, weight=0.0)


def nulled_history(r: Record, null: Array, version, t: int) -> Rows:
  """Every message after its own history, the last observation nulled.

  Row b K + k holds trajectory b up to turn k, `null` in the place of what it
  observed there; only the message of turn k counts as sampled. These are K
  times the rows of `record.full_history`, [B K, t].
  """
  b, k = r.valid.shape
  long = jax.tree.map(lambda x: jnp.repeat(x, k, axis=0), r)
  own = jnp.tile(jnp.arange(k, dtype=jnp.int32), b)[:, None]  # row's turn
  at = _turn(long) == own
  there = jnp.any(long.valid & at, axis=1, keepdims=True) & (own > 0)
  near = _replace(long, null, at)
  near = near.replace(valid=long.valid & (_turn(long) <= own) & there)
  layout = record_lib.full_history(near, t)
  rows = record_lib.rows(near, layout, version, weight=0.0)
  mine = rows.sampled & (rows.turn == own)
  return rows.replace(
    traj=jnp.where(rows.traj >= 0, rows.traj // k, -1),
    sampled=mine,
    logp=jnp.where(mine, rows.logp, 0),
  )


def _turn(r: Record) -> Array:
  return jnp.arange(r.valid.shape[1], dtype=jnp.int32)[None]


def _replace(r: Record, null: Array, at: Array) -> Record:
  """`null` for the context of the turns `at` [B, K]."""
  width = r.context.shape[2]
  if null.shape[0] > width:
    raise ValueError(
      f'a nulled observation of {null.shape[0]} tokens does not fit where'
      f' observations have at most {width}; shorten rollout.null_observation'
    )
  text = jnp.zeros(width, jnp.int32).at[: null.shape[0]].set(null)
  return r.replace(
    context=jnp.where(at[..., None], text, r.context),
    context_len=jnp.where(at, null.shape[0], r.context_len),
  )
