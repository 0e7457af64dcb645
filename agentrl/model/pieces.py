"""Micro-batches of rows: consecutive ones, or those that share most."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from agentrl import mesh, segment
from agentrl.model import fold
from agentrl.model.fold import FoldedRows
from agentrl.types import Array, PyTree, Rows

# Rows of a folded micro-batch, at most, in those that fit when nothing is
# shared. They cost arrays of numbers, and save tokens.
SHARED = 8


class MicroBatch(NamedTuple):
  """Size of a micro-batch; an int is one of rows that are not folded.

  rows: of all devices
  fold: what rows begin with alike is read once, and a micro-batch has as many
    rows as fit in the tokens of `rows` rows
  """

  rows: int
  fold: bool = False


def unfolded(micro: int | MicroBatch) -> int:
  """The size in rows, for outputs that fold to no advantage.

  Hidden states are as many as tokens of rows; largest logits are of rows.
  """
  return micro.rows if isinstance(micro, MicroBatch) else micro


class Pieces(Protocol):
  """Micro-batches of rows and their extras."""

  @property
  def rounds(self) -> Array:
    """How many hold any: [] i32."""

  def at(self, i) -> tuple[Rows, Any]:
    """Rows and extras of micro-batch i."""

  def zeros(self, rows: Rows, like: jax.ShapeDtypeStruct) -> Array:
    """Room for an output of all of them, of which one has such a shape."""

  def put(self, out: PyTree, new: PyTree, i) -> PyTree:
    """Room with the outputs of micro-batch i in place."""

  def join(self, out: PyTree) -> PyTree:
    """Outputs [N, ...] of the rows, in their order; 0 for those left out."""


def deal(rows: Rows, extras, keep: Array, micro: int | MicroBatch) -> Pieces:
  """Micro-batches of the rows to keep.

  Args:
    extras: pytree of [N, ...] arrays that belong to the rows
    keep: [N] bool
  """
  size = micro if isinstance(micro, MicroBatch) else MicroBatch(micro)
  # On a mesh of simulated devices XLA's collectives wait for each other in
  # loops over folded rows (JAX 0.10): there rows are read as they stand.
  if size.fold and not mesh.active():
    return _folded(rows, extras, keep, size.rows)
  order = segment.live_first(keep)
  pieces = segment.cut(segment.take_rows((rows, extras), order), size.rows)
  count = jnp.sum(keep.astype(jnp.int32))
  return Consecutive(pieces, order, (count + size.rows - 1) // size.rows)


@dataclasses.dataclass(frozen=True)
class Consecutive:
  """Rows to keep first, so many at a time: arrays [rounds, micro, ...]."""

  pieces: Any
  order: Array  # [N] i32
  rounds: Array

  def at(self, i):
    return jax.tree.map(
      lambda x: jax.lax.dynamic_index_in_dim(x, i, 0, keepdims=False),
      self.pieces,
    )

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
  """Rows in the order of `fold.order`, an equal part of them on each device.

  Behind a device's own stand `most` blank ones, so that a micro-batch that is
  not full ends there.
  """

  tree: Any  # rows and extras, [D * (Q + most), ...]
  start: Array  # [rounds, D] i32  first row of each, on its device
  count: Array  # [rounds, D] i32
  place: Array  # [N] i32  where each row stands among those that are dealt
  keep: Array  # [N] bool
  most: int  # rows of a micro-batch on a device
  capacity: int  # tokens of a micro-batch on a device
  rounds: Array

  def at(self, i):
    leaves, form = jax.tree.flatten(self.tree)
    axes = tuple(_axes(x) for x in leaves)

    def own(start, count, *leaves):
      here = jnp.arange(self.most) < count[0]

      def piece(x):
        x = jax.lax.dynamic_slice_in_dim(x, start[0], self.most)
        return jnp.where(here.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)

      rows, extras = jax.tree.unflatten(form, [piece(x) for x in leaves])
      nobody = {
        name: jnp.where(here[:, None], vars(rows)[name], -1)
        for name in ('seg', 'traj', 'turn')
      }
      rows = rows.replace(**nobody)
      wanted = rows.sampled | (rows.weight != 0)
      folded = fold.fold(rows.tokens, rows.seg, wanted, self.capacity)
      return *jax.tree.leaves((rows, extras)), *folded

    out_axes = (*axes, *(('batch', None),) * len(fold.Fold._fields))
    into = (('batch',), ('batch',), *axes)
    at = (jax.lax.dynamic_index_in_dim(x, i, 0, False) for x in self._cut)
    out = mesh.shard_map(own, into, out_axes)(*at, *leaves)
    rows, extras = jax.tree.unflatten(form, out[: len(leaves)])
    return FoldedRows(**vars(rows), fold=fold.Fold(*out[len(leaves) :])), extras

  @property
  def _cut(self):
    axes = None, 'batch'
    return [
      mesh.with_logical_sharding(x, *axes) for x in (self.start, self.count)
    ]

  def zeros(self, rows: Rows, like) -> Array:
    del rows
    size = self.tree[0].tokens.shape[0], *like.shape[1:]
    return mesh.with_logical_sharding(
      jnp.zeros(size, like.dtype), 'batch', *(None,) * (len(size) - 1)
    )

  def put(self, out, new, i):
    start = jax.lax.dynamic_index_in_dim(self._cut[0], i, 0, False)

    def f(out, new, start):
      return (jax.lax.dynamic_update_slice_in_dim(out, new, start[0], 0),)

    def write(out, new):
      axes = _axes(out)
      run = mesh.shard_map(f, (axes, axes, ('batch',)), (axes,))
      return run(out, new, start)[0]

    return jax.tree.map(write, out, new)

  def join(self, out):
    out = segment.take_rows(out, self.place)

    def masked(x):
      keep = mesh.with_logical_sharding(self.keep, 'batch')
      return jnp.where(keep.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)

    return jax.tree.map(masked, out)


def _folded(rows: Rows, extras, keep: Array, micro: int) -> Folded:
  n, t = rows.tokens.shape
  devices = _devices()
  q, own = n // devices, micro // devices
  most, rounds, capacity = min(SHARED * own, q), -(-q // own), own * t

  def dealt(tokens, seg, keep):
    """Rows of each device [D * q] i32, which are live, and their places."""
    order = fold.order(tokens, seg, keep)
    live = jnp.sum(keep, dtype=jnp.int32)
    edge = jnp.arange(devices + 1, dtype=jnp.int32) * live // devices
    at = edge[:-1, None] + jnp.arange(q, dtype=jnp.int32)[None]
    here = at < edge[1:, None]
    index = order[jnp.minimum(at, n - 1)].reshape(-1)
    stands = jnp.arange(devices * (q + most), dtype=jnp.int32)
    stands = stands.reshape(devices, -1)[:, :q]
    place = jnp.where(here, index.reshape(at.shape), n)
    place = jnp.zeros(n, jnp.int32).at[place].set(stands, mode='drop')
    return index, here.reshape(-1), place

  index, here, place = mesh.auto(dealt, None, None, None)(
    rows.tokens, rows.seg, keep
  )
  tree = segment.take_rows((rows, extras), index)
  row = 'batch', None

  def plan(tokens, seg, wanted, here):
    seg = jnp.where(here[:, None], seg, -1)
    length = jnp.sum(seg >= 0, axis=1, dtype=jnp.int32)
    asks = jnp.sum(wanted, axis=1, dtype=jnp.int32)
    begun = fold.shared(tokens, seg)
    cut = fold.cut(length, begun, asks, here, capacity, most, rounds)
    return tuple(x[:, None] for x in cut)

  into, out = (row, row, row, ('batch',)), ((None, 'batch'),) * 2
  dealt_rows: Rows = tree[0]
  start, count = mesh.shard_map(plan, into, out)(
    dealt_rows.tokens,
    dealt_rows.seg,
    dealt_rows.sampled | (dealt_rows.weight != 0),
    mesh.with_logical_sharding(here, 'batch'),
  )
  used = mesh.auto(lambda x: jnp.sum(jnp.any(x > 0, axis=1)), None)(count)
  tree = jax.tree.map(lambda x: _padded(x, most), tree)
  return Folded(tree, start, count, place, keep, most, capacity, used)


def _padded(x, most: int):
  """Blank rows behind those of each device."""
  axes = _axes(x)

  def f(x):
    return (jnp.pad(x, ((0, most),) + ((0, 0),) * (x.ndim - 1)),)

  return mesh.shard_map(f, (axes,), (axes,))(x)[0]


def _axes(x) -> tuple[str | None, ...]:
  return 'batch', *(None,) * (x.ndim - 1)


def _devices() -> int:
  """Devices among which rows are dealt."""
  if not mesh.active():
    return 1
  return mesh.num_shards('batch', jax.sharding.get_abstract_mesh().shape)


def _zeros_like_rows(rows: Rows, like):
  """Zeros of that shape and dtype for all rows, laid out as they are."""
  x = jnp.zeros_like(rows.logp[:, 0], like.dtype)
  for size in like.shape[1:]:
    x = jnp.repeat(x[..., None], size, axis=-1)
  return x
