"""Nulled readings: the same messages, an observation of theirs replaced."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.rollout import record as record_lib
from agentrl.rollout.record import Record
from agentrl.types import Array, Rows


class NullObservation(NamedTuple):
  """Tokens that stand for what a turn's context had of an observation."""

  tokens: tuple[int, ...]
  end: int | None = None  # before them, where the last message lacks it


def nulled_turns(r: Record, null: NullObservation, version) -> Rows:
  """Puts every message after `null` alone; contexts are one observation each.

  Rows as in `record.per_turn`; the first turn, whose observation answers
  nobody, is left out. Nothing is trained on.
  """
  near = _replace(r, null, jnp.ones_like(r.valid))
  near = near.replace(valid=r.valid & (_turn(r) > 0))
  return record_lib.rows(near, record_lib.per_turn(near), version, weight=0.0)


def nulled_history(r: Record, null: NullObservation, version, t: int) -> Rows:
  """Puts every message after its own history, the last observation nulled.

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


def _replace(r: Record, null: NullObservation, at: Array) -> Record:
  """Puts `null` for the context of the turns `at` [B, K]."""

  def text(*ids: int) -> Array:
    tokens = jnp.asarray(ids, jnp.int32)
    return jnp.zeros(r.context.shape[2], jnp.int32).at[: len(ids)].set(tokens)

  size = len(null.tokens)
  if null.end is None:
    tokens = text(*null.tokens)[None, None]
    length: Any = size
  else:
    last = jnp.maximum(r.message_len - 1, 0)[..., None]
    ends = jnp.take_along_axis(r.message, last, axis=2)[..., 0] == null.end
    cut = jnp.pad(~ends, ((0, 0), (1, 0)))[:, :-1]  # the message before
    whole = text(null.end, *null.tokens)
    tokens = jnp.where(
      cut[..., None], whole[None, None], text(*null.tokens)[None, None]
    )
    length = size + cut
  return r.replace(
    context=jnp.where(at[..., None], tokens, r.context),
    context_len=jnp.where(at, length, r.context_len),
  )
