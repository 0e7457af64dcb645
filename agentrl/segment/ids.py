"""Elements of equal id: sums, maxima and ranks among them."""

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.segment.turn_index import ROW


def compact_ids(*columns):
  """Gives each combination of the columns' values an id in [0, n): [n] i32.

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
  """Counts masked elements of equal id that have a smaller x: [n] i32.

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
  """Counts masked elements of equal id with x < the own bound: [n] i32.

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
  """Sums x over equal ids, at every element: [n] -> [n]."""
  return _reduce(x, ids, mask, 'add')


def segment_max(x, ids, mask=None):
  """Takes the max of x over equal ids, at every element; -inf where none."""
  return _reduce(x, ids, mask, 'max')


def _reduce(x, ids, mask, how: str):
  n = x.shape[0]

  def f(x, ids, mask):
    # Made in here: an array from outside lies on explicit axes if not traced.
    empty = jnp.asarray(0 if how == 'add' else -jnp.inf, x.dtype)
    slot = jnp.where(mask, ids, n)
    at = jnp.full(n + 1, empty).at[slot]
    out = at.add(x) if how == 'add' else at.max(x)
    return out.at[n].set(empty)[ids]

  mask = jnp.ones(n, bool) if mask is None else mask
  return mesh.auto(f, None)(x, ids, mask)


def group_reduce(x, mask, *columns, how: str = 'add'):
  """Sums ('add') or maximizes ('max') x over masked tokens that are alike.

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


def top_k_mask(x, mask, count):
  """Marks the `count` masked elements of largest x, or fewer: [N, T] bool.

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
