"""Modules over many rows, micro-batch by micro-batch.

Rows that hold nothing are never read: live rows are sorted to the front and
the loop over micro-batches has as many rounds as there are live ones. The
sum over micro-batches is the whole: losses arrive with their coefficients
already fixed over the whole batch (loss/reduce.py).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl import segment
from agentrl.types import Outputs, PyTree, Rows

# Of one micro-batch; extras are [N, ...] arrays that belong to its rows.
Reader = Callable[[PyTree, Rows, Any], Outputs]  # (params, rows, extras)
# (outputs, rows, extras) -> (loss, metrics); both are sums.
RowLoss = Callable[[Outputs, Rows, Any], tuple[jax.Array, Any]]
# (params, rows, extras) -> (loss, metrics)
Objective = Callable[[PyTree, Rows, Any], tuple[jax.Array, Any]]


def wanted(rows: Rows):
  """Tokens that were sampled or are trained on: [N, T] bool."""
  return rows.sampled | (rows.weight != 0)


def live(rows: Rows):
  """Rows in which something was sampled or is trained on: [N] bool."""
  return jnp.any(wanted(rows), axis=1)


def reader(apply, needs: tuple[str, ...]) -> Reader:
  """The outputs that a module's apply has of rows alone."""
  return lambda params, rows, extras: apply(params, rows, needs)


def objective(apply, needs: tuple[str, ...], loss: RowLoss) -> Objective:
  """A loss of the outputs that a module's apply has of rows alone."""
  read = reader(apply, needs)
  return lambda params, rows, e: loss(read(params, rows, e), rows, e)


def forward(apply, params, rows: Rows, needs, micro: int) -> Outputs:
  """Outputs [N, ...] of all live rows, 0 for the others; not differentiable."""
  return outputs(reader(apply, needs), params, rows, (), micro)


def outputs(read: Reader, params, rows: Rows, extras, micro: int) -> Outputs:
  """As `forward`, of what reads rows with their extras."""
  order, pieces, rounds = _deal((rows, extras), live(rows), micro)

  def step(i, out):
    new = read(params, *_at(pieces, i))
    return jax.tree.map(
      lambda o, x: jax.lax.dynamic_update_index_in_dim(o, x, i, 0), out, new
    )

  abstract = jax.eval_shape(lambda p, r: read(p, *_at(r, 0)), params, pieces)
  out = jax.tree.map(
    lambda s: segment.cut(_zeros_like_rows(rows, s), micro), abstract
  )
  out = segment.join(jax.lax.fori_loop(0, rounds, step, out))
  return segment.take_rows(out, segment.invert(order))


def gradient(
  total: Objective, params, rows: Rows, extras, micro: int, keep=None
):
  """Sum over micro-batches of d total / d params, and of the metrics.

  Args:
    extras: pytree of [N, ...] arrays, handed to total with its rows
    keep: [N] bool, rows that take part; default: the live ones
  Returns: gradient (as params), (loss, metrics)
  """
  keep = live(rows) if keep is None else keep & live(rows)
  _, pieces, rounds = _deal((rows, extras), keep, micro)

  # Added where they are made: a second tree of gradients need not be held.
  grads = jax.tree.map(lambda x: jax.new_ref(jnp.zeros_like(x)), params)

  def step(i, sums):
    piece = _at(pieces, i)
    value, pull, metrics = jax.vjp(
      lambda params: total(params, *piece), params, has_aux=True
    )
    pull.with_refs(grads)(jnp.ones_like(value))
    return jax.tree.map(jnp.add, sums, (value, metrics))

  shapes = jax.eval_shape(lambda p, r: total(p, *_at(r, 0)), params, pieces)
  sums = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
  sums = jax.lax.fori_loop(0, rounds, step, sums)
  return jax.tree.map(jax.ref.freeze, grads), sums


def linear(out: Outputs, rows: Rows, bar: Outputs):
  """The RowLoss Σ bar · out over the outputs that bar has.

  Its gradient pulls the cotangents bar back.
  """
  terms = jax.tree.map(
    lambda y, x: 0.0 if y is None else jnp.sum(x * y),
    bar,
    out,
    is_leaf=lambda y: y is None,
  )
  return sum(jax.tree.leaves(terms)), {}


def gradient_of_outputs(
  read: Reader, params, rows: Rows, extras, loss, micro: int, keep=None
):
  """Gradient of a loss that couples rows, exact under any micro-batching.

  Two passes: outputs of all rows, the loss differentiated once with respect
  to them, then these cotangents pulled back micro-batch by micro-batch.

  Args:
    extras: pytree of [N, ...] arrays, handed to read with its rows
    loss: Outputs over all rows -> (scalar, metrics)
  Returns: gradient, (loss, metrics), outputs of the first pass
  """
  out = outputs(read, params, rows, extras, micro)
  (value, metrics), bar = jax.value_and_grad(loss, has_aux=True)(out)

  def total(params, rows, pair):
    own, bar = pair
    return linear(read(params, rows, own), rows, bar)

  grads, _ = gradient(total, params, rows, (extras, bar), micro, keep)
  return grads, (value, metrics), out


def _deal(tree, keep, micro: int):
  """Live rows first, in micro-batches; and how many of these hold any."""
  order = segment.live_first(keep)
  pieces = segment.cut(segment.take_rows(tree, order), micro)
  count = jnp.sum(keep.astype(jnp.int32))
  return order, pieces, (count + micro - 1) // micro


def _at(tree, i):
  return jax.tree.map(
    lambda x: jax.lax.dynamic_index_in_dim(x, i, 0, keepdims=False), tree
  )


def _zeros_like_rows(rows: Rows, like):
  """Zeros of that shape and dtype for all rows, laid out as they are."""
  x = jnp.zeros_like(rows.logp[:, 0], like.dtype)
  for size in like.shape[1:]:
    x = jnp.repeat(x[..., None], size, axis=-1)
  return x
