"""Tokens and turns: ids of every token, and what moves between the two."""

import chex
import jax.numpy as jnp
from flax import struct

from agentrl import mesh
from agentrl.domain import OneOf
from agentrl.types import Array, Batch, Span

ROW = ('batch', None)
UNITS = ('turn', 'trajectory')


class TurnIndex(struct.PyTreeNode):
  """Ids of trajectory and turn of every token, and how many there may be.

  Tokens [N, T] and turns [B, K] meet here. Ids outside of [0, B) and [0, K)
  belong to no turn.
  """

  traj: Array  # [N, T] i32
  turn: Array  # [N, T] i32
  b: int = struct.field(pytree_node=False)
  k: int = struct.field(pytree_node=False)

  def _flat(self):
    """Flattens (traj, turn) into [B * K], B * K for what is neither."""
    traj, turn, b, k = self.traj, self.turn, self.b, self.k
    inside = (traj >= 0) & (turn >= 0) & (traj < b) & (turn < k)
    return jnp.where(inside, traj * k + turn, b * k)

  def unit(self, name: str) -> 'TurnIndex':
    """Returns the index under which each unit is one turn.

    A trajectory's unit holds its prompts, too; K is then 1.

    Args:
      name: 'turn' or 'trajectory'
    """
    OneOf(*UNITS).check('unit', name)
    if name == 'turn':
      return self
    return self.replace(turn=jnp.where(self.traj >= 0, 0, -1), k=1)

  def to_tokens(self, table):
    """Reads x_BK at every token: out[n, t] = table[traj, turn], else 0.

    Args:
      table: [B, K]
    Returns: [N, T]; 0 outside of turns
    """
    chex.assert_shape(table, (self.b, self.k))

    def f(table, index):
      padded = jnp.append(table.reshape(-1), jnp.zeros((), table.dtype))
      return padded[index._flat()]

    return mesh.auto(f, ROW)(table, self)

  def trajectories_to_tokens(self, x):
    """Reads x [B] at every token of a trajectory, prompts included: [N, T]."""
    return self.unit('trajectory').to_tokens(x[:, None])

  def to_turns(self, x):
    """Sums x [N, T] over the tokens of each (trajectory, turn): [B, K]."""

    def f(x, index):
      out = jnp.zeros(index.b * index.k + 1, x.dtype)
      out = out.at[index._flat()].add(x)
      return out[:-1].reshape(index.b, index.k)

    return mesh.auto(f, None)(x, self)

  def to_trajectories(self, x):
    """Sums x [N, T] over a trajectory's tokens, prompts included: [B]."""
    return self.unit('trajectory').to_turns(x)[:, 0]

  def at_turns(self, x, pick):
    """Reads x [N, T] at the one picked token of each turn: [B, K], else 0."""
    return self.to_turns(jnp.where(pick, x, 0))

  def sum_within(self, x, mask):
    """Sums x over the masked tokens of its turn, at every token: [N, T]."""
    return self.to_tokens(self.to_turns(jnp.where(mask, x, 0)))

  def mean_within(self, x, mask):
    """Averages x over the masked tokens of its turn, at every token: [N, T].

    0 where a turn has no masked token, and outside of turns.
    """
    n = self.to_turns(mask.astype(x.dtype))
    whole = self.to_turns(jnp.where(mask, x, 0))
    return self.to_tokens(whole / jnp.maximum(n, 1))

  def largest_turns(self, x, mask):
    """Takes the maximum of x over the masked tokens of each turn: [B, K].

    -inf where a turn has none.
    """

    def f(x, mask, index):
      size = index.b * index.k
      slot = jnp.where(mask, index._flat(), size)
      out = jnp.full(size + 1, -jnp.inf, x.dtype).at[slot].max(x)
      return out[:-1].reshape(index.b, index.k)

    return mesh.auto(f, None)(x, mask, self)

  def in_order(self, x, mask, size: int):
    """Reads x at the first `size` masked tokens of each turn: [B, K, size].

    0 beyond. The masked tokens of a turn are contiguous (types.Rows).
    """
    start, _ = self.bounds(mask)
    at = jnp.broadcast_to(jnp.arange(x.shape[1]), x.shape)
    first = self.to_turns(jnp.where(start, at, 0))
    place = at - self.to_tokens(first)

    def f(x, mask, index, place):
      b, k, flat = index.b, index.k, index._flat()
      used = mask & (flat < b * k) & (place < size)
      slot = jnp.where(used, flat * size + place, b * k * size)
      out = jnp.zeros(b * k * size + 1, x.dtype).at[slot].set(x)
      return out[:-1].reshape(b, k, size)

    return mesh.auto(f, None)(x, mask, self, place)

  def bounds(self, mask):
    """Marks first and last masked token of every turn in its row: [N, T] bool.

    The masked tokens of a turn are contiguous (types.Rows).
    """

    def f(mask, traj, turn):
      ids = jnp.where(mask, traj * (jnp.max(turn) + 2) + turn, -1)
      edge = jnp.full_like(ids[:, :1], -2)
      before = jnp.concatenate([edge, ids[:, :-1]], axis=1)
      after = jnp.concatenate([ids[:, 1:], edge], axis=1)
      return mask & (ids != before), mask & (ids != after)

    return mesh.auto(f, ROW, ROW)(mask, self.traj, self.turn)


def index(batch: Batch) -> TurnIndex:
  """Returns the index of the batch's own rows and turns."""
  b, k = batch.turns.valid.shape
  return TurnIndex(batch.rows.traj, batch.rows.turn, b, k)


def place_in_message(rows, index: TurnIndex):
  """Counts the tokens of its message before each sampled one: [N, T] i32.

  Args:
    rows: types.Rows
  """
  start, _ = index.bounds(rows.sampled)
  column = jnp.arange(rows.tokens.shape[1], dtype=jnp.int32)
  column = jnp.broadcast_to(column, rows.tokens.shape)
  first = index.to_tokens(index.at_turns(column, start))
  return jnp.where(rows.sampled, column - first, 0)


def in_message(rows):
  """Marks tokens of messages, sampled or given by a prefix: [N, T] bool.

  Args:
    rows: types.Rows
  """
  return rows.sampled | (rows.span == Span.PREFIX)


def in_span(span, which: Span):
  """Marks tokens of a span; a call has its arguments in it.

  Args:
    span: [...] i8, see `Span`
  """
  inside = span == which
  return inside | (span == Span.ARGUMENT) if which == Span.CALL else inside


def align(x, there, here):
  """Returns x at the sampled tokens of other rows that hold the same messages.

    out[n, t] = x[n, t'],  t' the column in row n of `there` of the token that
    stands in column t of row n of `here`

  The message of a turn stands in the row of one index in both, after contexts
  that may differ in length, so that nothing is moved between rows.

  Args:
    x: [N, T', ...], of the rows `there`
    there, here: (sampled, index) of rows [N, T'] and of [N, T]
  Returns: [N, T, ...]; 0 where nothing was sampled `here`, and where the
    message is missing `there`
  Raises: ValueError for other numbers of rows.
  """
  mask, index = here
  if x.shape[0] != mask.shape[0]:
    raise ValueError(
      f'a reading of {x.shape[0]} rows cannot be laid beside {mask.shape[0]}'
      ' rows; choose a reading that has the same rows'
    )

  def first(mask, index):
    """Returns each message's first token's column [B, K], from 1; else 0."""
    start, _ = index.bounds(mask)
    column = jnp.broadcast_to(jnp.arange(1, mask.shape[1] + 1), mask.shape)
    return index.at_turns(column, start)

  begin = index.to_tokens(first(*there))
  shift = begin - index.to_tokens(first(mask, index))

  def f(x, shift, found):
    column = jnp.arange(mask.shape[1])[None] + shift
    column = jnp.clip(column, 0, x.shape[1] - 1)
    extra = (1,) * (x.ndim - 2)
    out = jnp.take_along_axis(x, column.reshape(*column.shape, *extra), axis=1)
    return jnp.where(found.reshape(*found.shape, *extra), out, 0)

  axes = ('batch', *(None,) * (x.ndim - 1))
  return mesh.auto(f, axes)(x, shift, mask & (begin > 0))
