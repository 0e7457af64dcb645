"""KV cache: keys and values of each slot by position, in blocks.

Decoding pays for the blocks in use, not for those it is allowed: a block
beyond the furthest position is skipped at run time. Sizes double, so that a
long allowance costs few blocks. On a GPU the first block is large: a condition
and the kernels of another block take longer than to read what is not in use.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.nn import attention, control_flow, decode_kernel, paged_cache
from agentrl.nn.paged_cache import Pages
from agentrl.types import Array

FIRST, FIRST_ON_GPU = 128, 1024  # positions of the first block, at most


class Block(struct.PyTreeNode):
  """Positions [low, low + S) of one layer."""

  k: Array  # [N, G, d, S]
  v: Array  # [N, G, S, d]
  low: int = struct.field(pytree_node=False)


Layer = tuple[Block, ...] | Pages


class PrefixLayer(NamedTuple):
  """What F families of slots begin with; slot f * W + w is of family f."""

  layer: Layer  # [F, ...]
  length: Array  # [F] i32


def empty(
  n: int, capacity: int, heads: int, size: int, dtype, *, paged: bool = False
) -> Layer:
  """Makes room for `capacity` positions of n slots."""
  if paged:
    return paged_cache.empty(n, capacity, heads, size, dtype)
  first = FIRST_ON_GPU if jax.default_backend() == 'gpu' else FIRST
  blocks, low, s = [], 0, first
  while low < capacity:
    s = min(s, capacity - low)
    k = jnp.zeros((n, heads, size, s), dtype)
    v = jnp.zeros((n, heads, s, size), dtype)
    blocks.append(Block(k=k, v=v, low=low))
    low, s = low + s, low + s
  return tuple(blocks)


def begin(layer: Layer, first: Layer) -> Layer:
  """Puts the positions of another layer, which has no more, in front."""
  if isinstance(layer, Pages):
    assert isinstance(first, Pages)
    return paged_cache.begin(layer, first)
  assert not isinstance(first, Pages)
  filled = (_filled(b, x.k, x.v, 0) for b, x in zip(layer, first, strict=False))
  return (*filled, *layer[len(first) :])


@jax.named_scope('cache')
def write(layer: Layer, k_NCGd, v_NCGd, start_N) -> Layer:
  """Puts C positions per slot, slot n from start_N[n] on (None: from 0 on).

  What falls outside of the capacity is dropped.
  """
  if isinstance(layer, Pages):
    return paged_cache.write(layer, k_NCGd, v_NCGd, start_N)
  k, v = jnp.moveaxis(k_NCGd, 1, 3), jnp.moveaxis(v_NCGd, 1, 2)
  if start_N is None:
    return tuple(_filled(b, k, v, b.low) for b in layer)

  def put(b: Block, k, v, start_N) -> Block:
    at = {'start_N': start_N, 'low': b.low}
    return b.replace(k=_put(b.k, k, axis=3, **at), v=_put(b.v, v, axis=2, **at))

  chunk, new = k.shape[3], (k, v, start_N)
  if chunk == 1:  # what it drops costs less than to ask whether it does
    return tuple(put(b, *new) for b in layer)
  first, end = jnp.min(start_N), jnp.max(start_N) + chunk

  def put_if_hit(b: Block) -> Block:
    hit = (first < b.low + b.k.shape[3]) & (b.low < end)
    return control_flow.apply_if(hit, put, b, *new)

  return tuple(map(put_if_hit, layer))


def _filled(b: Block, k, v, low: int) -> Block:
  """Returns a block that starts at `low` of k and v."""
  return b.replace(k=_fill(b.k, k, low, axis=3), v=_fill(b.v, v, low, axis=2))


def _fill(old, new, low: int, *, axis: int):
  """Returns a block that starts at `low`, with positions 0, 1, ... from new."""
  size = old.shape[axis]
  fresh = jax.lax.slice_in_dim(
    new, min(low, new.shape[axis]), min(low + size, new.shape[axis]), axis=axis
  )
  if fresh.shape[axis] == size:
    return fresh
  return jax.lax.dynamic_update_slice_in_dim(old, fresh, 0, axis)


def _put(old, new, *, start_N, low: int, axis: int):
  """Puts new into old at [start - low, start - low + C) of an axis, by slot."""
  start_N = start_N - low
  chunk, size = new.shape[axis], old.shape[axis]
  if chunk == 1:
    at: list[Any] = [slice(None)] * old.ndim
    at[0] = jnp.arange(old.shape[0])
    at[axis] = jnp.where(start_N < 0, size, start_N)  # -1 would wrap around
    row = jnp.squeeze(new, axis)
    return old.at[tuple(at)].set(row, mode='drop')
  width = min(chunk, size)
  window_N = jnp.clip(start_N, 0, size - width)  # all that new can touch

  def one(old, new, start, window):
    here = jax.lax.dynamic_slice_in_dim(old, window, width, axis - 1)
    offset = window + jnp.arange(width) - start  # in new
    shape = [1] * old.ndim
    shape[axis - 1] = width
    inside = ((offset >= 0) & (offset < chunk)).reshape(shape)
    fresh = jnp.take(new, offset, axis=axis - 1, mode='clip')
    here = jnp.where(inside, fresh, here)
    return jax.lax.dynamic_update_slice_in_dim(old, here, window, axis - 1)

  return jax.vmap(one)(old, new, start_N, window_N)


def blocks(layer: Layer) -> tuple[Block, ...]:
  """Returns the layer in blocks: pages are copied into one."""
  if isinstance(layer, Pages):
    k, v = paged_cache.unpaged(layer)
    return (Block(k=k, v=v, low=0),)
  return layer


def attend(
  layer: Layer,
  q_NTHd,
  start_N,
  window: int = 0,
  size: int = 0,
  cap: float = 0.0,
  prefix: PrefixLayer | None = None,
  kernel: bool = False,
):
  """Attends, for queries at start_N... (None: 0...), to all positions before.

  Or to the nearest `window` of them, itself included; size and cap are those
  of attention.attend. Position 0 of a slot follows its prefix. kernel: one
  token over one block is read by decode_kernel. Over pages it always is, by
  tokamax's kernel, and other queries read a copy of them.

  Returns: [N, T, H, d]
  """
  n, t = q_NTHd.shape[:2]
  if start_N is None:
    start_N = jnp.zeros(n, jnp.int32)
  position = start_N[:, None] + jnp.arange(t, dtype=jnp.int32)[None]

  def sees(index):
    mask = position[:, :, None] >= index[None, None]
    if window:
      mask &= position[:, :, None] - index[None, None] < window
    return mask

  if t == 1 and isinstance(layer, Pages):
    parts = [
      paged_cache.part(
        layer, q_NTHd, start_N, window=window, size=size, cap=cap
      )
    ]
  else:
    held = blocks(layer)
    if t == 1 and len(held) == 1 and prefix is None:
      (b,) = held
      q = attention.split_heads(q_NTHd, b.k.shape[1])
      if kernel:
        out = decode_kernel.attend(
          q, b.k, b.v, start_N, window=window, size=size, cap=cap
        )
      else:
        mask = sees(jnp.arange(b.k.shape[3]))
        out = attention.whole(q, b.k, b.v, mask, size, cap)
      return attention.join_heads(out, q_NTHd.shape)
    parts = [_look(held, q_NTHd, sees, jnp.max(position), size, cap)]
  if prefix is not None:
    parts.append(_look_back(prefix, q_NTHd, position, window, size, cap))
  return attention.join_heads(attention.combine(parts), q_NTHd.shape)


def _look(
  layer: tuple[Block, ...], q_NTHd, sees, furthest, size: int, cap: float
) -> attention.PartialSoftmax:
  """Attends to the blocks of which any begins at `furthest` or before.

  Args:
    sees: positions [S] -> mask [N, T, S]
    furthest: [] i32, the last position that anybody looks at
  """
  q = attention.split_heads(q_NTHd, layer[0].k.shape[1])

  def look(b: Block):
    index = b.low + jnp.arange(b.k.shape[3])
    return attention.part(q, b.k, b.v, sees(index), size, cap)

  def first(count: int):
    return lambda: attention.merge([look(b) for b in layer[:count]])

  furthest = control_flow.lane_max(furthest)
  used = sum((b.low <= furthest).astype(jnp.int32) for b in layer)
  branches = [first(i + 1) for i in range(len(layer))]
  return jax.lax.switch(used - 1, branches)


def _look_back(
  prefix: PrefixLayer, q_NTHd, position_NT, window: int, size: int, cap: float
) -> attention.PartialSoftmax:
  """Attends to the prefix, whose keys are read once for all of its slots.

  The queries of a family stand in one row: its W slots of T.
  """
  n, t, h, d = q_NTHd.shape
  families = prefix.length.shape[0]
  row = families, n // families * t
  length = prefix.length[:, None, None]

  def sees(index):
    mask = index[None, None] < length
    if window:
      position = position_NT.reshape(row)[:, :, None] + length
      mask &= position - index[None, None] < window
    return jnp.broadcast_to(mask, (*row, index.size))

  q = q_NTHd.reshape(*row, h, d)
  furthest = jnp.max(prefix.length) - 1
  together = _look(blocks(prefix.layer), q, sees, furthest, size, cap)

  def of_slots(x):
    x_FQHd = attention.join_heads(x, (*row, h, x.shape[-1]))
    return attention.split_heads(x_FQHd.reshape(n, t, h, -1), x.shape[1])

  return jax.tree.map(of_slots, together)
