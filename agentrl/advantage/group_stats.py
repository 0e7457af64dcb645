"""Group statistics: means and deviations of cells, for turns and for tokens.

A cell is what shares its values in the columns `by`. Elements are turns or
tokens; `unit` says what counts once, in mean, deviation and n; a node is a
turn, once for all the branches that share it. Only turns
that happened and were scored enter; if the unit is the trajectory, all of its
turns must have been, since its return is otherwise unknown. What does not
enter gets 0. `singleton` is that of `ops.group`.
"""

from collections.abc import Sequence
from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import segment
from agentrl.advantage import chain, returns
from agentrl.domain import OneOf, Whole
from agentrl.ops import counting, group
from agentrl.ops.group import Moments
from agentrl.types import Array, Batch, Linked, LinkInputs, Metrics

# Hyper-parameters of links that compare the members of a cell.
Unit = Annotated[str, OneOf(*group.UNITS), 'what counts once in statistics']
Singleton = Annotated[
  str,
  OneOf(*group.SINGLETONS),
  "what a unit alone in its cell gets: 'zero', or 'raw', its own value",
]
Ddof = Annotated[
  int, Whole(0, 1), 'variance over n − ddof: 1 of a sample, 0 of a population'
]


def cells(batch: Batch, by: Sequence[str]) -> Array:
  """Returns equal ids [B, K] i32 for turns with equal values of the columns.

  Raises ValueError for a column that the batch does not have.
  """
  turns, shape = batch.turns, batch.turns.valid.shape
  columns = {key: column[:, None] for key, column in batch.ids.items()}
  columns['turn'] = jnp.arange(shape[1], dtype=jnp.int32)[None]
  columns |= {'state': turns.state, 'agent': turns.agent, 'node': turns.node}
  for name in by:
    if name not in columns:
      raise ValueError(
        f'by names column {name!r}, which the batch lacks; choose from'
        f' {tuple(columns)}'
      )
  chosen = (jnp.broadcast_to(columns[name], shape) for name in by)
  flat = (x.reshape(-1) for x in (jnp.zeros(shape, jnp.int32), *chosen))
  return segment.compact_ids(*flat).reshape(shape)


def counted(batch: Batch, unit: str) -> Array:
  """Marks turns that enter statistics, [B, K] bool. Raises for unknown unit."""
  OneOf(*group.UNITS).check('unit', unit)
  whole = unit == 'trajectory'
  return counting.counted(batch, 'trajectory' if whole else 'turn')


# ---- the two levels


def turn_pool(batch: Batch) -> group.PoolUnit:
  """Relates tokens [N, T] to the turns [B, K] that they are in."""
  index = segment.index(batch)
  return group.PoolUnit(
    add=index.to_turns, top=index.largest_turns, spread=index.to_tokens
  )


def on_turns(
  f, x: LinkInputs, *, by, unit, ddof=1, singleton='zero', where=True
) -> Linked:
  """Returns f(value, moments) on turns that enter, 0 on the others.

  Args:
    where: [B, K] bool, turns that may enter
  """
  value = x.credit.turn
  chex.assert_rank(value, 2)
  mask, cell = counted(x.batch, unit) & where, cells(x.batch, by)
  trained = x.batch.rows.sampled & (x.credit.weight > 0)
  tokens = turn_pool(x.batch).add(trained.astype(value.dtype))
  node, one = x.batch.turns.node, mask.astype(value.dtype)
  weight = group.unit_weights(unit, cell, node, one, tokens)
  m = group.group_moments(
    value,
    cell,
    mask=mask,
    weight=weight,
    size=chain.size(x.credit),
    ddof=ddof,
    singleton=singleton,
  )
  y = jnp.where(mask & m.live, f(value, m), 0)
  return x.credit.replace(turn=y), _metrics(m, mask)


def on_tokens(
  f, x: LinkInputs, *, by, unit, ddof=1, singleton='zero'
) -> Linked:
  """Returns f(value, moments) on trained tokens of turns that enter.

  value is the whole advantage of the token, its turn's and its own.
  """
  value = chain.token_advantage(x.credit, x.batch.rows)
  level = turn_pool(x.batch)
  turns, cell = counted(x.batch, unit), cells(x.batch, by)
  mask = x.batch.rows.sampled & (x.credit.weight > 0) & level.spread(turns)
  tokens = level.add(mask.astype(value.dtype))
  weight = group.unit_weights(unit, cell, x.batch.turns.node, tokens, tokens)
  m = group.group_moments(
    value,
    cell,
    mask=mask,
    weight=weight,
    size=level.spread(chain.size(x.credit)) + jnp.abs(x.credit.token),
    level=level,
    ddof=ddof,
    singleton=singleton,
  )
  there = Moments(*(level.spread(y) for y in m))
  y = jnp.where(mask & there.live, f(value, there), 0)
  return returns.as_tokens(x.credit, y), _metrics(m, turns & (tokens > 0))


def _metrics(m: Moments, mask: Array) -> Metrics:
  """Returns the share of turns in constant cells, and the mean deviation."""
  n = jnp.sum(mask).astype(m.var.dtype)
  flat = jnp.sum(mask & ((m.var == 0) | ~m.live)).astype(m.var.dtype)
  return {
    'zero_variance_frac': (flat, n),
    'std': (jnp.sum(jnp.where(mask, jnp.sqrt(m.var), 0)), n),
  }
