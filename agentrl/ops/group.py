"""Means and deviations of groups, and what compares a value with its group.

The mean of a constant group is its value, to the last bit: equal rewards give
exactly zero. `singleton` rules groups with n = 1: 'zero', or 'raw', which lets
the value through (mean 0, deviation 1), as verl, GiGPO and iStar do.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from agentrl import segment
from agentrl.domain import OneOf
from agentrl.types import Array

UNITS = ('trajectory', 'turn', 'token', 'first_turn', 'node')
SINGLETONS = ('zero', 'raw')


class Moments(NamedTuple):
  """Moments of the group that each place is in, of its shape all."""

  n: Array  # f32  how many units; whole numbers
  mean: Array
  var: Array
  live: Array  # bool  enters, and is no singleton that is to be 0
  low: Array  # the smallest element that enters; inf where none does
  high: Array  # the largest; -inf where none does


class PoolUnit(NamedTuple):
  """Correspondence of elements and the places that have a group."""

  add: Callable[[Array], Array]  # sum of elements of each place
  top: Callable[[Array, Array], Array]  # maximum where the mask
  spread: Callable[[Array], Array]  # from places to elements


# Every element has a group of its own.
PLAIN = PoolUnit(
  add=lambda y: y,
  top=lambda y, mask: jnp.where(mask, y, -jnp.inf),
  spread=lambda y: y,
)


def group_moments(
  x: Array,
  group: Array,
  *,
  mask: Array | None = None,
  weight: Array | None = None,
  level: PoolUnit = PLAIN,
  ddof: int = 1,
  singleton: str = 'zero',
) -> Moments:
  """Weighted mean and variance of the elements of each group.

  n = Σw;  mean = Σ w x / n;  var = Σ w (x − mean)² / (n − ddof)

  Args:
    x: elements; at the plain level of the shape of `group`
    group: i32, equal for members, each in [0, group.size)
    mask: elements that enter; all by default
    weight: of an element, of the shape of `group`; 1 by default
    level: how elements stand to places
  """
  OneOf(*SINGLETONS).check('singleton', singleton)
  shape, ids = group.shape, group.reshape(-1)
  mask = jnp.ones(x.shape, bool) if mask is None else mask
  weight = jnp.ones(shape, x.dtype) if weight is None else weight
  w = jnp.where(mask, level.spread(weight), 0)
  used = w > 0

  def total(y):
    y = level.add(jnp.where(used, y, 0))
    return segment.segment_sum(y.reshape(-1), ids).reshape(shape)

  def top(y):
    return segment.segment_max(level.top(y, used).reshape(-1), ids).reshape(
      shape
    )

  n = jnp.round(total(w))  # thirds do not add up to one
  low, high = -top(-x), top(x)
  mean = jnp.where(low == high, high, total(w * x) / jnp.maximum(n, 1))
  var = total(w * jnp.square(x - level.spread(mean)))
  var = jnp.where(low == high, 0, var / jnp.maximum(n - ddof, 1))
  alone = n == 1
  if singleton == 'raw':
    mean, var = jnp.where(alone, 0, mean), jnp.where(alone, 1, var)
  live = (n > 1) | (alone & (singleton == 'raw'))
  return Moments(n, mean, var, live, low, high)


def unit_weights(
  unit: str, cell: Array, node: Array, size: Array, tokens: Array
) -> Array:
  """Weight of each element of a turn, so that every unit weighs 1: [B, K].

  Args:
    unit: one of UNITS
    cell, node: [B, K] i32
    size: [B, K] elements of the turn that enter
    tokens: [B, K] trained tokens of the turn
  """
  b, k = cell.shape
  owner = jnp.broadcast_to(jnp.arange(b, dtype=jnp.int32)[:, None], (b, k))
  owner = node if unit == 'node' else owner
  own = segment.compact_ids(cell.reshape(-1), owner.reshape(-1))
  flat = size.reshape(-1)
  if unit in ('trajectory', 'node'):
    whole, part = segment.segment_sum(flat, own).reshape(b, k), size > 0
  elif unit == 'first_turn':
    index = jnp.broadcast_to(jnp.arange(k, dtype=size.dtype), (b, k))
    first = segment.segment_max(-index.reshape(-1), own, flat > 0)
    whole, part = size, (size > 0) & (index == -first.reshape(b, k))
  else:
    whole, part = size, tokens if unit == 'token' else size > 0
  return jnp.where(size > 0, part / jnp.maximum(whole, 1), 0)


def less_mean(x: Array, m: Moments) -> Array:
  """x − mean (Dr.GRPO, arXiv 2503.20783)."""
  return x - m.mean


def less_others(x: Array, m: Moments) -> Array:
  """x − mean of the others = n/(n−1) (x − mean) (RLOO, arXiv 2402.14740)."""
  # n = 1 gets here only if singletons are 'raw', with mean 0.
  return (x - m.mean) * jnp.where(m.n > 1, m.n / jnp.maximum(m.n - 1, 1), 1)


def zscore(x: Array, m: Moments, *, eps: float = 1e-6) -> Array:
  """(x − mean) / (std + eps) (GRPO, arXiv 2402.03300)."""
  return (x - m.mean) / (jnp.sqrt(m.var) + eps)


def min_max(x: Array, m: Moments) -> Array:
  """(x − min) / (max − min), 0 in constant groups (arXiv 2511.21689)."""
  size = m.high - m.low
  return jnp.where(size > 0, (x - m.low) / jnp.where(size > 0, size, 1), 0)


def white(x: Array, m: Moments) -> Array:
  """(x − mean) / √(var + 1e-8)."""
  return (x - m.mean) / jnp.sqrt(m.var + 1e-8)
