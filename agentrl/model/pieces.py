"""Micro-batches of rows: consecutive, or grouped by shared prefix."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from agentrl import mesh, segment
from agentrl.model import fold
from agentrl.model.fold import DEALT, FoldedRows
from agentrl.types import Array, PyTree, Rows

# Rows of a folded micro-batch, at most, in those that fit when nothing is
# shared. They cost arrays of numbers, and save tokens.
SHARED = 8
EVERYWHERE = ()  # each device has the same


class MicroBatch(NamedTuple):
  """Size of a micro-batch; a plain int is a number of unfolded rows.

  rows: on all devices of a mesh
  fold: shared prefixes are read once, and a device's share of a micro-batch
    holds the rows that fit into the tokens of its share of `rows`
  tokens: most of that share, if folded and of more than one row; 0: the tokens
    of `rows`
  places: of that share if folded, where it is known how many are needed
    (`places`); 0: those tokens
  in_place: gradients are accumulated in place, which JAX does not vmap
  """

  rows: int
  fold: bool = False
  tokens: int = 0
  places: int = 0
  in_place: bool = True


def wanted(rows: Rows):
  """Marks tokens that were sampled or are trained on: [N, T] bool."""
  return rows.sampled | (rows.weight != 0)


def sized(micro: int | MicroBatch) -> MicroBatch:
  return micro if isinstance(micro, MicroBatch) else MicroBatch(micro)


def unfolded(micro: int | MicroBatch) -> MicroBatch:
  """Returns the size in rows, for outputs that gain nothing from folding.

  Their hidden states and logits are per row.
  """
  return sized(micro)._replace(fold=False, tokens=0, places=0)


def capacity(micro: MicroBatch, t: int) -> int:
  """Returns the places that a device has for a folded micro-batch.

  Args:
    t: T, tokens of a row
  """
  if micro.places:
    return micro.places
  rows = micro.rows // mesh.axis_size('batch')
  if micro.tokens:
    rows = min(rows, max(1, micro.tokens // t))
  return rows * t


def longest(rows: Rows) -> Array:
  """Counts the tokens of the longest row that is read: [] i32."""
  read = (rows.seg >= 0) & jnp.any(wanted(rows), axis=1, keepdims=True)
  return jnp.max(jnp.sum(read, axis=1, dtype=jnp.int32))


def places(rows: Rows, keep: Array, micro: int | MicroBatch) -> Array:
  """Counts the places that the largest folded micro-batch needs: [] i32.

  On the device that needs most. Arguments as of `deal`.
  """
  return _folded(rows, (), keep, sized(micro)).places


class Pieces(Protocol):
  """Micro-batches of rows and their extras."""

  @property
  def rounds(self) -> Array:
    """Number of micro-batches: [] i32."""

  def at(self, i) -> tuple[Rows, Any]:
    """Returns rows and extras of micro-batch i."""

  def zeros(self, rows: Rows, like: jax.ShapeDtypeStruct) -> Array:
    """Allocates an output for all micro-batches, each shaped like `like`."""

  def put(self, out: PyTree, new: PyTree, i) -> PyTree:
    """Writes the outputs of micro-batch i."""

  def join(self, out: PyTree) -> PyTree:
    """Returns outputs [N, ...] in row order; 0 for rows left out."""


def deal(rows: Rows, extras, keep: Array, micro: int | MicroBatch) -> Pieces:
  """Splits the kept rows into micro-batches.

  Args:
    extras: pytree of [N, ...] arrays that belong to the rows
    keep: [N] bool
  """
  size = sized(micro)
  if size.fold:
    return _folded(rows, extras, keep, size)
  order = segment.live_first(keep)
  ordered = segment.take_rows((rows, extras, keep), order)
  pieces = segment.cut(ordered, size.rows)
  count = jnp.sum(keep.astype(jnp.int32))
  return Consecutive(pieces, order, (count + size.rows - 1) // size.rows)


@dataclasses.dataclass(frozen=True)
class Consecutive:
  """Kept rows first, in arrays [rounds, micro, ...]."""

  pieces: Any
  order: Array  # [N] i32
  rounds: Array

  def at(self, i):
    rows, extras, keep = jax.tree.map(
      lambda x: jax.lax.dynamic_index_in_dim(x, i, 0, keepdims=False),
      self.pieces,
    )
    return _blank(rows, extras, keep)

  def zeros(self, rows: Rows, like) -> Array:
    return segment.cut(_zeros_like_rows(rows, like), like.shape[0])

  def put(self, out, new, i):
    return jax.tree.map(
      lambda o, x: jax.lax.dynamic_update_index_in_dim(o, x, i, 0), out, new
    )

  def join(self, out):
    return segment.take_rows(segment.join(out), segment.invert(self.order))


@dataclasses.dataclass(frozen=True)
class Folded:
  """Rows in the order of `fold.order`, packed into micro-batches.

  Each of D devices has Q consecutive rows, the same number of them kept, and
  reads its own. `most` blank rows follow, which pad the last micro-batch.
  """

  tree: Any  # rows and extras, [D * (Q + most), ...]
  start: Array  # [D * rounds] i32  first row of each micro-batch
  count: Array  # [D * rounds] i32
  place: Array  # [N] i32  where each row stands in the tree
  keep: Array  # [N] bool
  most: int  # rows of a micro-batch of a device
  capacity: int  # tokens of a micro-batch of a device
  rounds: Array  # of the device that has most
  places: Array  # that the largest micro-batch of a device needs

  def at(self, i):
    def own(i, start, count, tree):
      here = jnp.arange(self.most) < count[i]

      def piece(x):
        return jax.lax.dynamic_slice_in_dim(x, start[i], self.most)

      rows, extras = _blank(*jax.tree.map(piece, tree), here)
      folded = fold.fold(rows.tokens, rows.seg, wanted(rows), self.capacity)
      return rows, extras, folded

    run = mesh.shard_map(own, (EVERYWHERE, DEALT, DEALT, DEALT), (DEALT,) * 3)
    rows, extras, folded = run(i, self.start, self.count, self.tree)
    return FoldedRows(**vars(rows), fold=folded), extras

  def zeros(self, rows: Rows, like) -> Array:
    shape = len(self.tree[0].tokens), *like.shape[1:]
    return _dealt(jnp.zeros(shape, like.dtype))

  def put(self, out, new, i):
    def own(i, start, out, new):
      def write(out, new):
        return jax.lax.dynamic_update_slice_in_dim(out, new, start[i], 0)

      return (jax.tree.map(write, out, new),)

    run = mesh.shard_map(own, (EVERYWHERE, DEALT, DEALT, DEALT), (DEALT,))
    return run(i, self.start, out, new)[0]

  def join(self, out):
    out = segment.take_rows(out, self.place)
    keep = _dealt(self.keep)
    return jax.tree.map(lambda x: _masked(x, keep), out)


def _folded(rows: Rows, extras, keep: Array, micro: MicroBatch) -> Folded:
  devices, (n, t) = mesh.axis_size('batch'), rows.tokens.shape
  q, size = n // devices, capacity(micro, t)
  most = min(SHARED * (micro.rows // devices), q)

  def deal(tokens, seg, keep):
    """Deals rows to devices [D * Q]; returns which to keep and their places."""
    order = fold.order(tokens, seg, keep)
    live = mesh.psum(jnp.sum(keep, dtype=jnp.int32), 'batch')
    edge = jnp.arange(devices + 1, dtype=jnp.int32) * live // devices
    index = jnp.arange(q, dtype=jnp.int32)[None]
    at = edge[:-1, None] + index
    here, row = at < edge[1:, None], order.at[at].get(mode='clip')
    stands = jnp.arange(devices, dtype=jnp.int32)[:, None] * (q + most) + index
    place = jnp.zeros(n, jnp.int32)
    place = place.at[jnp.where(here, row, n)].set(stands, mode='drop')
    return row.reshape(-1), here.reshape(-1), place

  def cut(tree, here):
    """Packs a device's rows; returns rows, micro-batches, rounds of all."""
    rows: Rows = tree[0]
    start, count, places = fold.cut(
      jnp.sum(rows.seg >= 0, axis=1, dtype=jnp.int32),
      fold.shared(rows.tokens, rows.seg),
      jnp.sum(wanted(rows), axis=1, dtype=jnp.int32),
      here,
      size,
      most,
      -(-q // max(1, size // t)),
    )
    tree = jax.tree.map(
      lambda x: jnp.pad(x, ((0, most),) + ((0, 0),) * (x.ndim - 1)), tree
    )
    used = jnp.sum(count > 0, dtype=jnp.int32)
    used, places = (mesh.pmax(x, 'batch') for x in (used, places))
    return tree, start, count, used, places

  rows, keep = jax.tree.map(_dealt, (rows, keep))  # readings lie whole
  row, here, place = mesh.shard_map(deal, (DEALT,) * 3, (EVERYWHERE,) * 3)(
    rows.tokens, rows.seg, keep
  )
  tree = segment.take_rows((rows, extras), row)
  here = _dealt(here)
  tree, start, count, rounds, places = mesh.shard_map(
    cut, (DEALT, DEALT), (DEALT,) * 3 + (EVERYWHERE,) * 2
  )(tree, here)
  return Folded(tree, start, count, place, keep, most, size, rounds, places)


def _dealt(x):
  """Deals the rows of x [N, ...] to the devices."""
  return mesh.with_logical_sharding(x, 'batch', *(None,) * (x.ndim - 1))


def _blank(rows: Rows, extras, keep_N) -> tuple[Rows, Any]:
  """Blanks rows, and zeroes extras, that are not kept.

  Log-probs are zeroed too, so that ratios of them do not overflow.
  """
  nobody = {
    name: jnp.where(keep_N[:, None], vars(rows)[name], -1)
    for name in ('seg', 'traj', 'turn')
  }
  nothing = {
    name: _masked(vars(rows)[name], keep_N)
    for name in ('sampled', 'weight', 'logp')
  }
  extras = jax.tree.map(lambda x: _masked(x, keep_N), extras)
  return rows.replace(**nobody, **nothing), extras


def _masked(x, keep_N):
  """Zeroes rows of x [N, ...] that are not kept."""
  return jnp.where(keep_N.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)


def _zeros_like_rows(rows: Rows, like):
  """Makes zeros of that shape and dtype for all rows, in their layout."""
  x = jnp.zeros_like(rows.logp[:, 0], like.dtype)
  for size in like.shape[1:]:
    x = jnp.repeat(x[..., None], size, axis=-1)
  return x
