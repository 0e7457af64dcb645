"""Record of a rollout, and the training rows made from it.

The record holds, for every turn, the context tokens that were new to the
model and the message it sampled. A `Layout` places these pieces in rows;
every layout holds the same sampled tokens.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl import segment
from agentrl.ops import counting
from agentrl.rollout.actor import ForcedPrefix
from agentrl.types import (
  NOTE,
  NOTE_WRITTEN,
  SAMPLED,
  Array,
  Attempts,
  Batch,
  Copies,
  Messages,
  Prefix,
  Rows,
  Span,
  Status,
  Turns,
)


class Record(struct.PyTreeNode):
  """C context capacity of a turn, M message capacity."""

  context: Array  # [B, K, C] i32
  context_len: Array  # [B, K] i32
  message: Array  # [B, K, M] i32
  message_len: Array  # [B, K] i32
  span: Array  # [B, K, M] i8  see Span
  logp: Array  # [B, K, M] f32  before top-k and top-p, nats
  entropy: Array  # [B, K] f32  summed over the message, nats
  action: Array  # [B, K] i32  as parsed; -1 not understood
  reward: Array  # [B, K] f32  the environment's
  columns: dict[str, Array]  # [B, K] f32  info values of the environment
  state: Array  # [B, K] i32  hash of the observation
  valid: Array  # [B, K] bool
  status: Array  # [B] i32
  outcome: Array  # [B] f32
  # [B, K, M] i32 of the policy; -1: the one that plays now; None: all are -1
  version: Array | None = None
  scored: Array | None = None  # [B, K] bool  by judges; None: nobody failed
  context_span: Array | None = None  # [B, K, C] i8  see Span; None: all OTHER
  weight: Array | None = None  # [B, K, M] f32  of a stored message; None: 1
  context_weight: Array | None = None  # [B, K, C] f32  None: 0
  # [B, K] i32 of its row: a turn that begins one repeats what it reads. None: 0
  seg: Array | None = None
  seat: Array | None = None  # [B] i32  of several that play; None: one alone
  match: Array | None = None  # [B] i32  equal: seats of one; None: each its own
  role: Array | None = None  # [B] i32  of Algorithm.players; None: one plays


def empty(b: int, k: int, c: int, m: int, columns, xp=jnp) -> Record:
  """Returns an empty record, of jax.numpy or numpy arrays."""
  i, f = xp.int32, xp.float32
  return Record(
    context=xp.zeros((b, k, c), i),
    context_len=xp.zeros((b, k), i),
    message=xp.zeros((b, k, m), i),
    message_len=xp.zeros((b, k), i),
    span=xp.full((b, k, m), Span.OTHER, xp.int8),
    logp=xp.zeros((b, k, m), f),
    entropy=xp.zeros((b, k), f),
    action=xp.full((b, k), -1, i),
    reward=xp.zeros((b, k), f),
    columns={name: xp.zeros((b, k), f) for name in columns},
    state=xp.zeros((b, k), i),
    valid=xp.zeros((b, k), bool),
    status=xp.zeros(b, i),
    outcome=xp.zeros(b, f),
  )


def put(record: Record, traj, turn, values: dict) -> Record:
  """Writes [n, ...] values at (traj, turn) of a record, by its fields."""

  def write(old, new):
    return old.at[traj, turn].set(new.astype(old.dtype), mode='drop')

  old = {name: getattr(record, name) for name in values}
  return record.replace(**jax.tree.map(write, old, values))


def weightless(record: Record, term: str) -> Record:
  """Sets weight 0 on the record's messages of turns that have a term."""
  own = record.columns[term] == 0  # [B, K]
  weight = (record.span != Span.PREFIX) & own[..., None]
  return record.replace(weight=weight.astype('float32'))


class Capacity(NamedTuple):
  """Sizes of a rollout's arrays, in tokens."""

  context: int  # C, tokens that are new to the model in a turn
  row: int  # T, tokens of a row
  cache: int  # S, positions of a slot


class Layout(NamedTuple):
  """Row, first column and segment of turn (b, k)."""

  row: Array  # [B, K] i32
  column: Array  # [B, K] i32
  seg: Array  # [B, K] i32
  n: int  # N
  t: int  # T


def per_turn(r: Record) -> Layout:
  """Returns one row for each turn: its context, then its message."""
  b, k, c = r.context.shape
  row = jnp.arange(b * k, dtype=jnp.int32).reshape(b, k)
  zero = jnp.zeros_like(row)
  return Layout(row, zero, zero, b * k, c + r.message.shape[2])


def full_history(r: Record, t: int) -> Layout:
  """Returns one row of t columns for each trajectory: all its turns in order.

  Branches of a trajectory are segments of it, one behind the other.
  """
  b, k, _ = r.context.shape
  row = jnp.broadcast_to(jnp.arange(b, dtype=jnp.int32)[:, None], (b, k))
  length = jnp.where(r.valid, r.context_len + r.message_len, 0)
  column = jnp.cumsum(length, axis=1) - length
  seg = jnp.zeros_like(row) if r.seg is None else r.seg
  return Layout(row, column, seg, b, t)


def last_segment(r: Record, t: int) -> Layout:
  """Returns the newest segment of each trajectory, in a row of t columns."""
  layout = full_history(r, t)
  newest = jnp.max(jnp.where(r.valid, layout.seg, 0), axis=1, keepdims=True)
  mine = r.valid & (layout.seg == newest)
  begin = jnp.min(jnp.where(mine, layout.column, t), axis=1, keepdims=True)
  return layout._replace(column=jnp.where(mine, layout.column - begin, t))


def rows(r: Record, layout: Layout, version, weight: float = 1.0) -> Rows:
  """Returns rows [N, T] of the record in a layout.

  Message tokens carry their turn; so does the environment's answer to it,
  where the layout shows it after the message. First observations and context
  that is quoted again carry turn -1. A message of span PREFIX is not sampled
  and has no weight, unless the record says its weight.

  Args:
    weight: times that of every token, which is 1 in messages and 0 in contexts
      where the record says nothing else
  """
  b, k, c = r.context.shape
  m = r.message.shape[2]
  n, t = layout.n, layout.t
  j = jnp.arange(c + m, dtype=jnp.int32)[None, None]
  length = r.context_len[..., None]
  used = (j < length + r.message_len[..., None]) & r.valid[..., None]
  # The token at place j of a turn: context first, the message right after.
  place = jnp.where(j < length, j, c + j - length)
  place = jnp.minimum(place, c + m - 1)
  source = jnp.arange(b * k, dtype=jnp.int32).reshape(b, k, 1) * (c + m) + place
  column = layout.column[..., None] + j
  fits = used & (column < t)
  target = jnp.where(fits, layout.row[..., None] * t + column, n * t)
  at = jnp.full(n * t + 1, b * k * (c + m), jnp.int32)
  at = at.at[target.reshape(-1)].set(source.reshape(-1))[:-1].reshape(n, t)

  def take(context, message, empty):
    """Returns [N, T] of per-place values; empty where nothing stands."""
    flat = jnp.concatenate([context, message], axis=-1).reshape(-1)
    return jnp.append(flat, jnp.asarray(empty, flat.dtype))[at]

  def like(x_BK, size):
    return jnp.broadcast_to(x_BK[..., None], (b, k, size))

  traj = jnp.broadcast_to(jnp.arange(b, dtype=jnp.int32)[:, None], (b, k))
  turn = jnp.broadcast_to(jnp.arange(k, dtype=jnp.int32)[None], (b, k))
  # An observation answers the turn before it if that one stands in the
  # segment.
  goes_on = layout.seg == jnp.roll(layout.seg, 1, axis=1)
  answers = jnp.where((layout.column > 0) & goes_on, turn - 1, -1)
  message = take(jnp.zeros((b, k, c), bool), jnp.ones((b, k, m), bool), False)
  span = take(
    jnp.full((b, k, c), Span.OTHER, jnp.int8)
    if r.context_span is None
    else r.context_span,
    r.span,
    Span.OTHER,
  )
  sampled = message & (span != Span.PREFIX)
  return Rows(
    tokens=take(r.context, r.message, 0),
    seg=take(like(layout.seg, c), like(layout.seg, m), -1),
    traj=take(like(traj, c), like(traj, m), -1),
    turn=take(like(answers, c), like(turn, m), -1),
    span=span,
    sampled=sampled,
    weight=(
      jnp.where(sampled, weight, 0.0).astype(jnp.float32)
      if r.weight is None and r.context_weight is None
      else weight * take(*_weights(r), 0.0)
    ),
    logp=take(jnp.zeros((b, k, c)), r.logp, 0.0),
    version=(
      jnp.full((n, t), version, jnp.int32)
      if r.version is None
      else _versions(
        take(jnp.zeros((b, k, c), jnp.int32), r.version, 0), version
      )
    ),
  )


def _versions(of_tokens, now):
  """Returns the versions of tokens, `now` in place of -1."""
  return jnp.where(of_tokens < 0, now, of_tokens).astype(jnp.int32)


def _weights(r: Record) -> tuple[Array, Array]:
  """Returns weights of context [B, K, C] and message tokens [B, K, M], f32."""
  context, message = r.context_weight, r.weight
  f = jnp.float32
  return (
    jnp.zeros(r.context.shape, f) if context is None else context,
    jnp.ones(r.message.shape, f) if message is None else message,
  )


def given(p: Prefix, k: int, m: int) -> ForcedPrefix:
  """Finds messages that a prefix repeats, in the table or rows they stand in.

  Args:
    k, m: capacities: turns, and tokens of a message
  """
  x = p.messages
  if isinstance(x, Messages):
    chex.assert_shape(x.tokens, (p.turns.shape[0], k, m))
    zero = jnp.zeros(x.tokens.shape)
    return ForcedPrefix(
      tokens=x.tokens,
      logp=zero,
      version=jnp.zeros(x.tokens.shape, jnp.int32),
      entropy=zero[..., 0],
      length=x.length,
    )
  rows = x.rows
  index = segment.TurnIndex(rows.traj, rows.turn, x.count, k)

  def in_order(values):
    return index.in_order(values, rows.sampled, m)[x.origin]

  there = in_order(jnp.ones_like(rows.tokens))
  length = jnp.sum(there, axis=-1, dtype=jnp.int32)
  return ForcedPrefix(
    tokens=in_order(rows.tokens),
    logp=in_order(rows.logp),
    version=in_order(rows.version),
    entropy=x.entropy[x.origin],
    length=length,
  )


def forced_turns(r: Record) -> Array:
  """Marks turns whose message the policy was given: [B, K] bool."""
  m = r.message.shape[2]
  used = jnp.arange(m)[None, None] < r.message_len[..., None]
  return r.valid & jnp.any(used & (r.span == Span.PREFIX), axis=2)


def batch(r: Record, layout: Layout, attempts: Attempts, version) -> Batch:
  """Returns the record as a Batch; rewards are still to be given.

  A trajectory that is prefix alone says nothing of the policy and does not
  count. Under a forced prefix ids['prefix'] is the number of turns that were
  given, ids['prefix_cut'] how many more there were: the world had ended before
  them, or showed something else. ids['hinted'] is 1 for what was sampled behind
  a hint, which the rows do not have.
  """
  b, k = r.valid.shape
  forced = forced_turns(r)
  own = r.valid & ~forced
  length = jnp.where(own, r.message_len, 0).astype(jnp.float32)
  valid = r.valid.astype(jnp.float32)
  terms = {
    'env': r.reward,
    'tokens': length,
    'entropy': r.entropy,
    'invalid': valid * (r.action < 0),
    **r.columns,
  }
  node = jnp.arange(b * k, dtype=jnp.int32).reshape(b, k)
  zero = jnp.zeros(b, jnp.int32)
  ids = {'task': attempts.task, 'group': attempts.group, 'arm': attempts.arm}
  if attempts.prefix is not None and attempts.prefix.forced:
    count = jnp.sum(forced, axis=1, dtype=jnp.int32)
    cut = jnp.where(attempts.limit > 0, attempts.prefix.turns - count, 0)
    ids |= {'prefix': count, 'prefix_cut': cut.astype(jnp.int32)}
  agent = jnp.zeros((b, k), jnp.int32)
  if r.seat is not None:
    agent = jnp.broadcast_to(r.seat[:, None], (b, k))
    own_match = jnp.arange(b, dtype=jnp.int32)
    ids |= {'seat': r.seat, 'match': own_match if r.match is None else r.match}
  if r.role is not None:
    ids |= {'role': r.role}
  alone = ~jnp.any(forced, axis=1)  # what was helped tells nothing of a task
  if attempts.hinted is not None:
    hinted = attempts.hinted & jnp.any(r.valid, axis=1)
    ids |= {'hinted': hinted.astype(jnp.int32)}
    alone &= ~hinted
  if (notes := attempts.notes) is not None:
    for i in range(notes.entry.shape[1]):
      ids[f'{NOTE}{i}'] = notes.entry[:, i]
      ids[f'{NOTE_WRITTEN}{i}'] = notes.written[:, i]
  whole = r.status != Status.ENV_ERROR
  scored = r.valid if r.scored is None else r.valid & r.scored
  made = Batch(
    rows=rows(r, layout, version),
    turns=Turns(
      reward=jnp.zeros((b, k)),
      terms={name: jnp.where(r.valid, x, 0.0) for name, x in terms.items()},
      scored=scored & jnp.any(own, axis=1, keepdims=True),
      valid=r.valid,
      state=r.state,
      node=node,
      agent=agent,
    ),
    ids=ids | {'source': zero, 'age': zero},
    outcome=r.outcome,
    status=r.status,
    sampled=sampled(r, attempts),
  )
  attempted = {
    'task': attempts.task,
    'outcome': r.outcome,
    'counts': alone & whole & counting.trajectories(made),
  }
  return made.replace(attempted=attempted)


def sampled(r: Record, attempts: Attempts) -> dict[str, Array]:
  """Returns the sampling counts of the record, see types.SAMPLED.

  Environments play the turns of a prefix, but its messages are not sampled.
  """
  own = r.valid & ~forced_turns(r)
  p = attempts.prefix
  if p is not None and not p.forced:
    own &= jnp.arange(own.shape[1])[None] >= p.turns[:, None]
  tokens = jnp.sum(jnp.where(own, r.message_len, 0))
  if p is not None and isinstance(p.messages, Copies):
    begun = p.messages.tokens
    if begun is not None:  # of the first message that is sampled
      at = jnp.minimum(p.turns, own.shape[1] - 1)[:, None]
      there = jnp.take_along_axis(own, at, axis=1)[:, 0]
      tokens -= jnp.sum(jnp.where(there, begun, 0))
  counts = (jnp.sum(attempts.limit > 0), tokens, jnp.sum(r.valid))
  return {
    name: jnp.asarray(x, jnp.int32)
    for name, x in zip(SAMPLED, counts, strict=True)
  }
