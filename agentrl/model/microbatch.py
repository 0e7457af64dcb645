"""Modules over many rows, micro-batch by micro-batch.

Rows that hold nothing are never read: live rows are sorted to the front and
the loop over micro-batches has as many rounds as there are live ones. The
sum over micro-batches is the whole: losses arrive with their coefficients
already fixed over the whole batch (loss/reduce.py).

A micro-batch is so many rows; where a decoder folds rows (model/fold.py) it is
their tokens instead, and more rows fit that begin alike.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.model.pieces import MicroBatch, deal, sized, unfolded, wanted
from agentrl.types import Outputs, PyTree, Rows

# Of one micro-batch; extras are [N, ...] arrays that belong to its rows.
Reader = Callable[[PyTree, Rows, Any], Outputs]  # (params, rows, extras)
# (outputs, rows, extras) -> (loss, metrics); both are sums.
RowLoss = Callable[[Outputs, Rows, Any], tuple[jax.Array, Any]]
# (params, rows, extras) -> (loss, metrics)
Objective = Callable[[PyTree, Rows, Any], tuple[jax.Array, Any]]


def live(rows: Rows):
  """Marks rows in which something was sampled or is trained on: [N] bool."""
  return jnp.any(wanted(rows), axis=1)


def reader(apply, needs: tuple[str, ...]) -> Reader:
  """Returns the outputs that a module's apply has of rows alone."""
  return lambda params, rows, extras: apply(params, rows, needs)


def objective(apply, needs: tuple[str, ...], loss: RowLoss) -> Objective:
  """Returns a loss of the outputs that a module's apply has of rows alone."""
  read = reader(apply, needs)
  return lambda params, rows, e: loss(read(params, rows, e), rows, e)


def forward(
  apply, params, rows: Rows, needs, micro: int | MicroBatch
) -> Outputs:
  """Returns outputs [N, ...] of live rows, 0 of others; not differentiable."""
  if {'hidden', 'attention_logit'} & set(needs):
    micro = unfolded(micro)
  return outputs(reader(apply, needs), params, rows, (), micro)


def outputs(
  read: Reader, params, rows: Rows, extras, micro: int | MicroBatch
) -> Outputs:
  """Runs as `forward`, on what reads rows with their extras."""
  pieces = deal(rows, extras, live(rows), micro)

  def step(i, out):
    return pieces.put(out, read(params, *pieces.at(i)), i)

  abstract = jax.eval_shape(lambda p: read(p, *pieces.at(0)), params)
  out = jax.tree.map(lambda s: pieces.zeros(rows, s), abstract)
  return pieces.join(jax.lax.fori_loop(0, pieces.rounds, step, out))


def gradient(
  total: Objective,
  params,
  rows: Rows,
  extras,
  micro: int | MicroBatch,
  keep=None,
):
  """Sums d total / d params, and the metrics, over micro-batches.

  Args:
    extras: pytree of [N, ...] arrays, handed to total with its rows
    keep: [N] bool, rows that take part; default: the live ones
  Returns: gradient (as params), (loss, metrics)
  """
  keep = live(rows) if keep is None else keep & live(rows)
  pieces = deal(rows, extras, keep, micro)
  zeros = jax.tree.map(jnp.zeros_like, params)
  # Added where they are made: a second tree of gradients need not be held.
  refs = jax.tree.map(jax.new_ref, zeros) if sized(micro).in_place else None

  def step(i, carry):
    sums, grads = carry
    piece = pieces.at(i)
    value, pull, metrics = jax.vjp(
      lambda params: total(params, *piece), params, has_aux=True
    )
    one = jnp.ones_like(value)
    if refs is None:
      grads = jax.tree.map(jnp.add, grads, *pull(one))
    else:
      pull.with_refs(refs)(one)
    return jax.tree.map(jnp.add, sums, (value, metrics)), grads

  shapes = jax.eval_shape(lambda p: total(p, *pieces.at(0)), params)
  sums = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
  carry = sums, zeros if refs is None else ()
  sums, grads = jax.lax.fori_loop(0, pieces.rounds, step, carry)
  if refs is not None:
    grads = jax.tree.map(jax.ref.freeze, refs)
  return grads, sums


def linear(out: Outputs, rows: Rows, bar: Outputs):
  """Returns the RowLoss Σ bar · out over the outputs that bar has.

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
  read: Reader,
  params,
  rows: Rows,
  extras,
  loss,
  micro: int | MicroBatch,
  keep=None,
):
  """Differentiates a loss that couples rows, exact under any micro-batching.

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
