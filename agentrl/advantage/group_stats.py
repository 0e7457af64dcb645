"""Means and deviations of cells, written once for turns and for tokens.

A cell is what shares its values in the columns `by`. Elements are turns or
tokens; `unit` says what counts once, in mean, deviation and n; a node is a
turn, once for all the branches that share it. Only turns
that happened and were scored enter; if the unit is the trajectory, all of its
turns must have been, since its return is otherwise unknown. What does not
enter gets 0.

The mean of a constant cell is its value, to the last bit: equal rewards give
exactly zero. `singleton` rules cells with n = 1: 'zero', or 'raw', which lets
the value through (mean 0, deviation 1), as verl, GiGPO and iStar do.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import chex
import jax.numpy as jnp

from agentrl import counting, domain, segment
from agentrl.advantage import chain, returns
from agentrl.types import Array, Batch, Credit, Metrics

Linked = tuple[Credit, Metrics]

UNITS = ('trajectory', 'turn', 'token', 'first_turn', 'node')
SINGLETONS = ('zero', 'raw')
Unit = Annotated[str, domain.OneOf(*UNITS)]
Singleton = Annotated[str, domain.OneOf(*SINGLETONS)]


class Moments(NamedTuple):
  """Of the cell that each turn is in, [B, K] all."""

  n: Array  # f32  how many units; whole numbers
  mean: Array
  var: Array
  live: Array  # bool  enters, and is no singleton that is to be 0


class Level(NamedTuple):
  """How elements and turns correspond."""

  add: Callable[[Array], Array]  # sum of elements of each turn -> [B, K]
  top: Callable[[Array, Array], Array]  # maximum where the mask -> [B, K]
  spread: Callable[[Array], Array]  # [B, K] -> elements


def cells(batch: Batch, by: Sequence[str]) -> Array:
  """Equal ids [B, K] i32 for turns with equal values of the columns.

  Raises ValueError for a column that the batch does not have.
  """
  return segment.dense(
    jnp.zeros(batch.turns.valid.size, jnp.int32),
    *(_column(batch, name).reshape(-1) for name in by),
  ).reshape(batch.turns.valid.shape)


def _column(batch: Batch, name: str) -> Array:
  turns = batch.turns
  shape = turns.valid.shape
  index = jnp.arange(shape[1], dtype=jnp.int32)[None]
  columns = {key: column[:, None] for key, column in batch.ids.items()}
  columns |= {'turn': index, 'state': turns.state}
  columns |= {'agent': turns.agent, 'node': turns.node}
  if name not in columns:
    raise ValueError(
      f'by names column {name!r}, which the batch lacks; choose from'
      f' {tuple(columns)}'
    )
  return jnp.broadcast_to(columns[name], shape)


def counted(batch: Batch, unit: str) -> Array:
  """Turns that enter statistics, [B, K] bool. Raises for an unknown unit."""
  if unit not in UNITS:
    raise ValueError(f'unit={unit!r} is unknown; choose from {UNITS}')
  whole = unit == 'trajectory'
  return counting.counted(batch, 'trajectory' if whole else 'turn')


def shares(
  unit: str, cell: Array, node: Array, size: Array, tokens: Array
) -> Array:
  """What each element of a turn weighs, so that every unit weighs 1: [B, K].

  Args:
    cell, node: [B, K] i32
    size: [B, K] elements of the turn that enter
    tokens: [B, K] trained tokens of the turn
  """
  b, k = cell.shape
  owner = jnp.broadcast_to(jnp.arange(b, dtype=jnp.int32)[:, None], (b, k))
  owner = node if unit == 'node' else owner
  own = segment.dense(cell.reshape(-1), owner.reshape(-1))
  flat = size.reshape(-1)
  if unit in ('trajectory', 'node'):
    whole, part = segment.total(flat, own).reshape(b, k), size > 0
  elif unit == 'first_turn':
    index = jnp.broadcast_to(jnp.arange(k, dtype=size.dtype), (b, k))
    first = segment.largest(-index.reshape(-1), own, flat > 0)
    whole, part = size, (size > 0) & (index == -first.reshape(b, k))
  else:
    whole, part = size, tokens if unit == 'token' else size > 0
  return jnp.where(size > 0, part / jnp.maximum(whole, 1), 0)


def moments(
  x: Array,
  mask: Array,
  share: Array,
  cell: Array,
  level: Level,
  *,
  ddof: int,
  singleton: str,
) -> Moments:
  """Weighted mean and variance of the elements of each cell.

  n = Σw;  mean = Σ w x / n;  var = Σ w (x − mean)² / (n − ddof)

  Args:
    x, mask: elements, and which of them enter
    share: [B, K] weight of an element of the turn
  """
  if singleton not in SINGLETONS:
    raise ValueError(
      f'singleton={singleton!r} is unknown; choose from {SINGLETONS}'
    )
  b, k = cell.shape
  ids = cell.reshape(-1)
  w = jnp.where(mask, level.spread(share), 0)
  used = w > 0

  def total(y):
    y = level.add(jnp.where(used, y, 0))
    return segment.total(y.reshape(-1), ids).reshape(b, k)

  def top(y):
    return segment.largest(level.top(y, used).reshape(-1), ids).reshape(b, k)

  n = jnp.round(total(w))  # thirds do not add up to one
  low, high = -top(-x), top(x)
  mean = jnp.where(low == high, high, total(w * x) / jnp.maximum(n, 1))
  var = total(w * jnp.square(x - level.spread(mean)))
  var = jnp.where(low == high, 0, var / jnp.maximum(n - ddof, 1))
  alone = n == 1
  if singleton == 'raw':
    mean, var = jnp.where(alone, 0, mean), jnp.where(alone, 1, var)
  live = (n > 1) | (alone & (singleton == 'raw'))
  return Moments(n, mean, var, live)


# ---- the two levels


def _tokens_of(mask, batch: Batch) -> Array:
  b, k = batch.turns.valid.shape
  rows = batch.rows
  return segment.to_turns(mask, rows.traj, rows.turn, b, k)


def on_turns(
  f,
  credit: Credit,
  batch: Batch,
  *,
  by,
  unit,
  ddof=1,
  singleton='zero',
  where=True,
) -> Linked:
  """f(x, moments) on every turn that enters, 0 on the others.

  Args:
    where: [B, K] bool, turns that may enter
  """
  x = credit.turn
  chex.assert_rank(x, 2)
  mask, cell = counted(batch, unit) & where, cells(batch, by)
  trained = batch.rows.sampled & (credit.weight > 0)
  tokens = _tokens_of(trained.astype(x.dtype), batch)
  level = Level(
    add=lambda y: y,
    top=lambda y, mask: jnp.where(mask, y, -jnp.inf),
    spread=lambda y: y,
  )
  node = batch.turns.node
  share = shares(unit, cell, node, mask.astype(x.dtype), tokens)
  m = moments(x, mask, share, cell, level, ddof=ddof, singleton=singleton)
  y = jnp.where(mask & m.live, f(x, m), 0)
  return credit.replace(turn=y), _metrics(m, mask)


def on_tokens(
  f, credit: Credit, batch: Batch, *, by, unit, ddof=1, singleton='zero'
) -> Linked:
  """f(x, moments) on every trained token of the turns that enter.

  x is the whole advantage of the token, its turn's and its own.
  """
  rows = batch.rows
  x = chain.token_advantage(credit, rows)
  b, k = batch.turns.valid.shape

  def spread(y):
    return segment.to_tokens(y, rows.traj, rows.turn)

  turns, cell = counted(batch, unit), cells(batch, by)
  mask = rows.sampled & (credit.weight > 0) & spread(turns)
  tokens = _tokens_of(mask.astype(x.dtype), batch)
  level = Level(
    add=lambda y: segment.to_turns(y, rows.traj, rows.turn, b, k),
    top=lambda y, mask: segment.largest_turns(
      y, mask, rows.traj, rows.turn, b, k
    ),
    spread=spread,
  )
  share = shares(unit, cell, batch.turns.node, tokens, tokens)
  m = moments(x, mask, share, cell, level, ddof=ddof, singleton=singleton)
  there = Moments(*(spread(y) for y in m))
  y = jnp.where(mask & there.live, f(x, there), 0)
  return returns.as_tokens(credit, y), _metrics(m, turns & (tokens > 0))


def _metrics(m: Moments, mask: Array) -> Metrics:
  """Share of turns in cells that teach nothing, and the mean deviation."""
  n = jnp.sum(mask).astype(m.var.dtype)
  flat = jnp.sum(mask & ((m.var == 0) | ~m.live)).astype(m.var.dtype)
  return {
    'flat': (flat, n),
    'std': (jnp.sum(jnp.where(mask, jnp.sqrt(m.var), 0)), n),
  }
