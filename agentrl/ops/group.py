"""Means and deviations of groups, and what compares a value with its group.

Values that differ by no more than their rounding errors are equal: the mean of
a constant group is its value, and equal returns give exactly zero, in whatever
order their rewards were summed (`rounding`). `singleton` rules groups with
n = 1: 'zero', or 'raw', which lets the value through (mean 0, deviation 1), as
verl, GiGPO and iStar do.
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
  mean: Array  # in [low, high]
  var: Array  # 0 where the elements are equal up to rounding, and only there
  live: Array  # bool  enters, and is no singleton that is to be 0
  low: Array  # the smallest element that enters; inf where none does
  high: Array  # the largest; -inf where none does
  rise: Array  # mean - low, before the mean was rounded
  slack: Array  # elements that differ by no more than this are equal


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


def rounding(size: Array) -> Array:
  """Returns how far apart two float32 sums of one exact value may lie.

  Let u = 2^-24 be the unit roundoff and S = Σ_j r_j, with Σ_j |r_j| <= size.
  Each summand was rounded when it became a float32, by at most u |r_j|: 0.1 is
  none. A compensated sum rounds once more, by u |S| <= u Σ |r_j|, and of order
  u² besides (Higham, Accuracy and Stability of Numerical Algorithms, 4.3). So
  |x - S| <= 2 u size, and two such sums differ by at most 4 u size. It is the
  summands that count: 1e4 - 1e4 is known to within 5e-3 only. A value that is
  no sum has its own magnitude for a size.
  """
  return 2 * jnp.finfo(size.dtype).eps * size  # eps = 2 u


def group_moments(
  x: Array,
  group: Array,
  *,
  mask: Array | None = None,
  weight: Array | None = None,
  size: Array | None = None,
  level: PoolUnit = PLAIN,
  ddof: int = 1,
  singleton: str = 'zero',
) -> Moments:
  """Returns the weighted mean and variance of the elements of each group.

  n = Σw;  mean = Σ w x / n;  var = Σ w (x − mean)² / (n − ddof)

  They are taken from differences to the smallest element: what all members
  have in common costs no digits. Where the elements differ by no more than
  `rounding`, var is 0. Where one is not finite, moments are not either.

  Args:
    x: elements; at the plain level of the shape of `group`
    group: i32, equal for members, each in [0, group.size)
    mask: elements that enter; all by default
    weight: of an element, of the shape of `group`; 1 by default
    size: Σ |summands| of each element, for `rounding`; |x| by default
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
  some = ~(low > high)  # where one is NaN, too
  magnitude = jnp.abs(x) if size is None else jnp.maximum(jnp.abs(x), size)
  slack = jnp.where(some, rounding(top(magnitude)), 0)
  varies = some & ~_equal(low, high, slack)
  base = jnp.where(some, low, 0)
  rise = total(w * (x - level.spread(base))) / jnp.maximum(n, 1)
  mean = jnp.clip(base + rise, low, high)
  mean = jnp.where(varies, mean, jnp.where(some, high, 0))
  away = (x - level.spread(base)) - level.spread(rise)
  var = total(w * jnp.square(away)) / jnp.maximum(n - ddof, 1)
  # The square of a small deviation must not become 0.
  least = jnp.finfo(x.dtype).tiny
  var = jnp.where(varies, jnp.maximum(var, least), 0)
  alone = n == 1
  if singleton == 'raw':
    mean, var = jnp.where(alone, 0, mean), jnp.where(alone, 1, var)
    rise = jnp.where(alone, -base, rise)
  live = (n > 1) | (alone & (singleton == 'raw'))
  return Moments(n, mean, var, live, low, high, rise, slack)


def _equal(low: Array, high: Array, slack: Array) -> Array:
  """Returns whether finite elements from low to high are all equal."""
  return jnp.isfinite(slack) & (high - low <= slack)


def unit_weights(
  unit: str, cell: Array, node: Array, size: Array, tokens: Array
) -> Array:
  """Weighs each element of a turn so that every unit weighs 1: [B, K].

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
  """x − mean (Dr.GRPO, arXiv 2503.20783); 0 in constant groups."""
  return jnp.where(m.var == 0, 0, (x - m.low) - m.rise)


def less_others(x: Array, m: Moments) -> Array:
  """x − mean of the others = n/(n−1) (x − mean) (RLOO, arXiv 2402.14740)."""
  # n = 1 gets here only if singletons are 'raw', with mean 0.
  share = jnp.where(m.n > 1, m.n / jnp.maximum(m.n - 1, 1), 1)
  return less_mean(x, m) * share


def zscore(x: Array, m: Moments, *, eps: float = 1e-6) -> Array:
  """(x − mean) / (std + eps) (GRPO, arXiv 2402.03300)."""
  return less_mean(x, m) / (jnp.sqrt(m.var) + eps)


def min_max(x: Array, m: Moments) -> Array:
  """(x − min) / (max − min), 0 in constant groups (arXiv 2511.21689)."""
  varies = m.high - m.low > m.slack
  return jnp.where(
    varies, (x - m.low) / jnp.where(varies, m.high - m.low, 1), 0
  )


def white(x: Array, m: Moments) -> Array:
  """(x − mean) / √(var + 1e-8)."""
  return less_mean(x, m) / jnp.sqrt(m.var + 1e-8)


def deviation(x: Array, weight: Array) -> Array:
  """x − Σ w x / Σ w where w > 0, else 0; all 0 if x is equal up to rounding."""
  used = weight > 0
  low = jnp.min(jnp.where(used, x, jnp.inf))
  high = jnp.max(jnp.where(used, x, -jnp.inf))
  slack = rounding(jnp.maximum(jnp.abs(low), jnp.abs(high)))
  used &= ~_equal(low, high, slack)
  total = jnp.sum(jnp.where(used, weight, 0))
  rise = jnp.sum(jnp.where(used, weight * (x - low), 0))
  rise /= jnp.where(total > 0, total, 1)
  return jnp.where(used, (x - low) - rise, 0)
