"""Segment operations: the only place that gathers, scatters or sorts by id.

Rows are [N, T] with ids (trajectory, turn) on every token; turns are [B, K].
Index -1 would wrap around in JAX: every function here sends it to a trash
slot. Everything runs unchanged without a mesh, under automatic and under
explicit axes (`mesh.auto`).
"""

import chex
import jax
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
    """Flat index of (traj, turn) into [B * K], B * K for what is neither."""
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


def in_message(rows):
  """Tokens of messages, sampled or given by a prefix: [N, T] bool.

  Args:
    rows: types.Rows
  """
  return rows.sampled | (rows.span == Span.PREFIX)


def in_span(span, which: Span):
  """True on tokens of a span; a call has its arguments in it.

  Args:
    span: [...] i8, see `Span`
  """
  inside = span == which
  return inside | (span == Span.ARGUMENT) if which == Span.CALL else inside


def align(x, there, here):
  """x at the sampled tokens of other rows that hold the same messages.

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
    """Column of each message's first token [B, K], counted from 1; 0: none."""
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


def compact_ids(*columns):
  """One id in [0, n) for each combination of the columns' values: [n] i32.

  Args:
    columns: [n] integer arrays; equal rows get equal ids.
  """

  def f(*columns):
    order = jnp.lexsort(columns)
    change = [c[order][1:] != c[order][:-1] for c in columns]
    new = jnp.any(jnp.stack(change), axis=0) if columns else change
    rank = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(new)])
    return jnp.zeros_like(rank).at[order].set(rank).astype(jnp.int32)

  return mesh.auto(f, None)(*columns)


def rank(x, ids, mask):
  """Number of masked elements of equal id that have a smaller x: [n] i32.

  Of equal ones the first goes first; what is not masked gets n.
  """

  def f(x, ids, mask):
    n = x.shape[0]
    order = jnp.lexsort((x, ids, ~mask))
    place = jnp.arange(n, dtype=jnp.int32)
    new = ids[order][1:] != ids[order][:-1]
    start = jnp.where(jnp.append(True, new), place, 0)
    within = place - jax.lax.cummax(start)
    out = jnp.zeros(n, jnp.int32).at[order].set(within)
    return jnp.where(mask, out, n)

  return mesh.auto(f, None)(x, ids, mask)


def count_below(x, bound, ids, mask):
  """Number of masked elements of equal id with x < the own bound: [n] i32.

  Args:
    x, bound: [n]
    ids: [n] i32
    mask: [n] bool, elements that are counted
  """

  def f(x, bound, ids, mask):
    n = x.shape[0]
    value, owner = jnp.append(bound, x), jnp.append(ids, ids)
    element = jnp.append(jnp.zeros(n, bool), mask)
    # A bound stands before the elements that equal it.
    order = jnp.lexsort((element, value, owner))
    owner, element = owner[order], element[order].astype(jnp.int32)
    before = jnp.cumsum(element) - element
    new = jnp.append(True, owner[1:] != owner[:-1])
    within = before - jax.lax.cummax(jnp.where(new, before, 0))
    return jnp.zeros_like(within).at[order].set(within)[:n]

  return mesh.auto(f, None)(x, bound, ids, mask)


def segment_sum(x, ids, mask=None):
  """Sum of x over equal ids, at every element: [n] -> [n]."""
  return _reduce(x, ids, mask, 'add')


def segment_max(x, ids, mask=None):
  """Maximum of x over equal ids, at every element; -inf where none."""
  return _reduce(x, ids, mask, 'max')


def _reduce(x, ids, mask, how: str):
  n = x.shape[0]
  empty = jnp.asarray(0 if how == 'add' else -jnp.inf, x.dtype)

  def f(x, ids, mask):
    slot = jnp.where(mask, ids, n)
    at = jnp.full(n + 1, empty).at[slot]
    out = at.add(x) if how == 'add' else at.max(x)
    return out.at[n].set(empty)[ids]

  mask = jnp.ones(n, bool) if mask is None else mask
  return mesh.auto(f, None)(x, ids, mask)


def group_reduce(x, mask, *columns, how: str = 'add'):
  """Sum ('add') or maximum ('max') of x over masked tokens that are alike.

  Args:
    x, mask: [N, T]
    columns: [N, T] i32; tokens with equal values in all of them are alike
  Returns: [N, T], at every masked token; elsewhere it means nothing.
  """

  def f(x, mask, *columns):
    ids = compact_ids(*(c.reshape(-1) for c in columns))
    y = _reduce(x.reshape(-1), ids, mask.reshape(-1), how)
    return y.reshape(x.shape)

  return mesh.auto(f, ROW)(x, mask, *columns)


def prefix_sum(x, mask, index: TurnIndex, valid):
  """Σ of x over the trajectory's masked tokens up to here: [N, T].

  In whatever rows they stand; 0 off the mask. Arguments as in `next_token`.
  """
  x = jnp.where(mask, x, 0)
  whole = jnp.where(valid, index.to_turns(x), 0)
  whole = jnp.sum(whole, axis=1, keepdims=True)
  whole = index.to_tokens(jnp.broadcast_to(whole, valid.shape))
  rest = accumulate_tokens(x, 1.0, mask, index, valid)
  return jnp.where(mask, whole - rest + x, 0)


def take_trajectories(tree, order):
  """Arrays [B, ...] that every device holds, in another order: [b] i32."""
  take = mesh.auto(lambda x, order: x[order], None)
  return jax.tree.map(lambda x: take(x, order), tree)


def top_k_mask(x, mask, count):
  """The `count` masked elements of largest x, fewer if there are: [N, T] bool.

  Args:
    x: [N, T]; of equal values the first ones go first
    mask: [N, T] bool
    count: [] i32
  """

  def f(x, mask, count):
    order = jnp.argsort(jnp.where(mask, -x, jnp.inf).reshape(-1), stable=True)
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
    return mask & (rank.reshape(x.shape) < count)

  return mesh.auto(f, ROW)(x, mask, count)


def accumulate(x, factor):
  """y_t = x_t + factor_t * y_{t+1} along the last axis, y past the end 0.

  Args:
    x: [..., T]
    factor: [..., T]; 0 stops the recursion after t.
  """

  def f(x, factor):
    def join(right, left):
      (a, y), (b, z) = right, left
      return a * b, z + b * y

    _, y = jax.lax.associative_scan(
      join, (factor, x), reverse=True, axis=x.ndim - 1
    )
    return y

  axes = ROW if x.ndim == 2 else None
  return mesh.auto(f, axes)(x, jnp.broadcast_to(factor, x.shape))


def accumulate_turns(x, factor, valid):
  """y_k = x_k + factor_k * y_{k+1} over the valid turns of [B, K].

  Valid turns of a trajectory are its first ones, or have gaps (another
  agent's turns): what is not valid is passed over and gets 0. Sums are
  compensated: with a factor of 1 their order does not matter.
  """
  return _accumulate_turns(x, factor, valid)[1]


def sum_turns(x, factor, valid):
  """x_0 + factor_0 (x_1 + factor_1 (...)) over the valid turns: [B].

  Compensated as in `accumulate_turns`; 0 for a trajectory without a turn.
  """
  return _accumulate_turns(x, factor, valid)[0]


def _accumulate_turns(x, factor, valid):
  """y at the first valid turn [B], and at every turn [B, K]."""

  def f(x, factor, valid):
    def back(carry, now):
      y, rest = carry
      x, factor, valid = now
      whole, off = _two_sum(x, factor * y)
      rest = jnp.where(valid, factor * rest + off, rest)
      y = jnp.where(valid, whole, y)
      return (y, rest), jnp.where(valid, y + rest, 0)

    xs = [jnp.swapaxes(a, 0, 1) for a in (x, factor, valid)]
    zero = jnp.zeros_like(xs[0][0])
    (y, rest), ys = jax.lax.scan(back, (zero, zero), xs, reverse=True)
    return y + rest, jnp.swapaxes(ys, 0, 1)

  factor = jnp.broadcast_to(factor, x.shape)
  return mesh.auto(f, None)(x, factor, valid)


def _two_sum(a, b):
  """a + b as it is rounded, and what rounding left out (Knuth's TwoSum)."""
  whole = a + b
  part = whole - a
  off = (a - (whole - part)) + (b - part)
  return whole, jnp.where(jnp.isfinite(whole), off, 0)


def next_turn(x, valid):
  """x at the next valid turn of the trajectory, 0 after the last: [B, K]."""

  def f(x, valid):
    def back(carry, now):
      x, valid = now
      return jnp.where(valid, x, carry), jnp.where(valid, carry, 0)

    xs = [jnp.swapaxes(a, 0, 1) for a in (x, valid)]
    _, ys = jax.lax.scan(back, jnp.zeros_like(xs[0][0]), xs, reverse=True)
    return jnp.swapaxes(ys, 0, 1)

  return mesh.auto(f, None)(x, valid)


def last_turn(valid):
  """Where the last valid turn of each trajectory stands: [B, K] bool."""
  return valid & (next_turn(valid.astype(jnp.int32), valid) == 0)


def previous_turn(x, valid):
  """x at the valid turn before, 0 at the first: [B, K]."""
  back = next_turn(jnp.flip(x, 1), jnp.flip(valid, 1))
  return jnp.flip(back, 1)


def roll_turns(x, shift, mask):
  """x moved on by `shift` masked turns of its trajectory, in a circle: [B, K].

  Args:
    x: [B, K]; where the mask is off it stays as it is
    shift: [B, 1] i32
    mask: [B, K] bool
  """

  def f(x, shift, mask):
    count = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
    place = jnp.cumsum(mask, axis=1) - 1  # which of the masked turns
    at = jnp.argsort(~mask, axis=1, stable=True)  # where that one stands
    source = jnp.take_along_axis(at, (place - shift) % count, axis=1)
    return jnp.where(mask, jnp.take_along_axis(x, source, axis=1), x)

  return mesh.auto(f, None)(x, shift, mask)


def next_token(x, mask, index: TurnIndex, valid):
  """x at the next masked token of the trajectory, in whatever row it stands.

  Args:
    x: [N, T]
    mask: [N, T] bool, the sampled tokens
    index: of the rows
    valid: [B, K] bool
  Returns: [N, T], 0 after a trajectory's last token.
  """
  start, end = index.bounds(mask)
  has = index.to_turns(mask.astype(jnp.float32)) > 0
  first = index.at_turns(x, start)
  after = index.to_tokens(next_turn(first, valid & has))
  inside = jnp.concatenate([x[:, 1:], jnp.zeros_like(x[:, :1])], axis=1)
  return jnp.where(mask, jnp.where(end, after, inside), 0)


def accumulate_tokens(x, factor: float, mask, index: TurnIndex, valid):
  """y_t = x_t + factor * y_{next token of the trajectory}; 0 off the mask.

  Two levels, so that rows may split a trajectory between turns: inside each
  turn first, then over [B, K] with factor^(tokens of the turn), then back.
  Arguments as in `next_token`.
  """
  start, end = index.bounds(mask)
  inner = jnp.where(mask & ~end, factor, 0.0).astype(x.dtype)
  local = accumulate(jnp.where(mask, x, 0), inner)
  left = accumulate(mask.astype(x.dtype), (mask & ~end).astype(x.dtype))
  power = jnp.asarray(factor, x.dtype)
  length = index.at_turns(left, start)
  first = index.at_turns(local, start)
  carried = accumulate_turns(first, power**length, valid & (length > 0))
  later = index.to_tokens(next_turn(carried, valid & (length > 0)))
  return jnp.where(mask, local + power**left * later, 0)


def live_first(live):
  """Order that puts live rows first, otherwise stable: [N] bool -> [N] i32."""
  return mesh.auto(lambda x: jnp.argsort(~x, stable=True), None)(live)


def take_rows(tree, order):
  """Every array of the tree [N, ...] in another order of rows."""

  def take(x):
    axes = ('batch',) + (None,) * (x.ndim - 1)
    return mesh.auto(lambda x, order: x[order], axes)(x, order)

  return jax.tree.map(take, tree)


def cut(tree, size: int):
  """[N, ...] -> [N / size, size, ...]: micro-batches of consecutive rows."""

  def f(x):
    axes = (None, 'batch') + (None,) * (x.ndim - 1)
    return mesh.auto(lambda x: x.reshape(-1, size, *x.shape[1:]), axes)(x)

  return jax.tree.map(f, tree)


def join(tree):
  """Inverse of `cut`."""

  def f(x):
    axes = ('batch',) + (None,) * (x.ndim - 2)
    return mesh.auto(lambda x: x.reshape(-1, *x.shape[2:]), axes)(x)

  return jax.tree.map(f, tree)


def invert(order):
  """The order that undoes `take_rows(., order)`: [N] i32."""
  return mesh.auto(jnp.argsort, None)(order)
