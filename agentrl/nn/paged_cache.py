"""KV cache in pages, for tokamax's attention of one token on a TPU.

tokamax (extra `tokamax`: Python 3.12 and JAX 0.11.1 at the least) has one
kernel that reads the pages of each slot up to its own position. A slot owns its
pages, one behind another, so that page p of slot n is page n P + p of the
kernel's pool. It differs from kv_cache.Block in what is stored beside what:
key and value of a head are neighbours, and heads are filled up to 128 numbers.

The kernel has run on no TPU here, and tokamax compiles it where one is only.
Tests hold tokamax's own plain form of it, which runs anywhere, against
attention over blocks.
"""

import functools
import importlib.util
import math

import jax
import jax.numpy as jnp
from absl import logging
from flax import struct

from agentrl import mesh
from agentrl.nn import attention
from agentrl.runtime import install
from agentrl.types import Array

PAGE = 128  # positions
LANES = 128  # numbers that a head is filled up to a multiple of
POOL = 'batch', None, None, 'kv_heads', None
HEADS = 'batch', 'kv_heads', None


class Pages(struct.PyTreeNode):
  """All positions of one layer; P pages a slot, G heads of keys."""

  kv: Array  # [N, P, PAGE, 2 G, d'] keys at even places, values at odd ones
  size: int = struct.field(pytree_node=False)  # d, of the d' numbers of a head


def chosen(name: str) -> bool:
  """Returns whether pages are asked for and a TPU is here; logs if none is.

  Raises ValueError if tokamax is not installed.
  """
  if name != 'tokamax':
    return False
  here = jax.default_backend()
  if here != 'tpu':
    _announce(here)
    return False
  if importlib.util.find_spec('tokamax') is None:
    raise ValueError(
      "model.decode_attention='tokamax' needs tokamax and Python 3.12:"
      f' {install.command("tokamax")}'
    )
  return True


@functools.cache
def _announce(here: str) -> None:
  text = "model.decode_attention='tokamax' needs a tpu, not a %s; XLA's is used"
  logging.warning(text, here)


def empty(n: int, capacity: int, heads: int, size: int, dtype) -> Pages:
  """Makes room for at least `capacity` positions of n slots."""
  width = -(-size // LANES) * LANES
  shape = n, -(-capacity // PAGE), PAGE, 2 * heads, width
  return Pages(kv=jnp.zeros(shape, dtype), size=size)


def begin(pages: Pages, first: Pages) -> Pages:
  """Overwrites the first pages with those of `first`, which has no more."""
  kv = jax.lax.dynamic_update_slice_in_dim(pages.kv, first.kv, 0, axis=1)
  return pages.replace(kv=kv)


def write(pages: Pages, k_NCGd, v_NCGd, start_N) -> Pages:
  """Puts C positions per slot, as kv_cache.write."""
  n, c, g, d = k_NCGd.shape
  fresh = jnp.stack([k_NCGd, v_NCGd], axis=3).reshape(n, c, 2 * g, d)
  fresh = jnp.pad(fresh, ((0, 0),) * 3 + ((0, pages.kv.shape[-1] - d),))
  start_N = jnp.zeros(n, jnp.int32) if start_N is None else start_N
  at = start_N[:, None] + jnp.arange(c, dtype=jnp.int32)[None]
  slot = jnp.arange(n)[:, None]
  put = pages.kv.at[slot, at // PAGE, at % PAGE].set(fresh, mode='drop')
  return pages.replace(kv=put)


def unpaged(pages: Pages) -> tuple[Array, Array]:
  """Returns a copy of keys [N, G, d, S] and values [N, G, S, d]."""
  n, p, page, heads, width = pages.kv.shape
  each = pages.kv.reshape(n, p * page, heads // 2, 2, width)
  k, v = each[..., 0, : pages.size], each[..., 1, : pages.size]
  return jnp.moveaxis(k, 1, 3), jnp.moveaxis(v, 1, 2)


def part(
  pages: Pages,
  q_NTHd,
  position_N,
  *,
  window: int = 0,
  size: int = 0,
  cap: float = 0.0,
  implementation: str = 'mosaic_tpu',
) -> attention.PartialSoftmax:
  """Attends from one query a slot, T = 1, to positions 0... position_N.

  Args:
    position_N: [N] i32, the last position that a slot sees, which is written
    window: positions seen at most; 0: all
    size, cap: as attention.attend
    implementation: tokamax's; 'reference' runs on any device
  """
  run = functools.partial(
    _attend,
    of_head=pages.size,
    sm_scale=1 / math.sqrt(size or pages.size),
    sliding_window=window or None,
    soft_cap=cap or None,
    implementation=implementation,
  )
  placed = mesh.shard_map(run, (HEADS, POOL, ('batch',)), (HEADS, HEADS[:2]))
  out_NHd, lse_NH = placed(q_NTHd[:, 0], pages.kv, position_N)
  groups = pages.kv.shape[3] // 2
  out, top = (
    attention.split_heads(x[:, None], groups)
    for x in (out_NHd, lse_NH[..., None])
  )
  # e^lse is the sum that has been divided by: as of scores whose top is lse.
  return attention.PartialSoftmax(out=out, total=jnp.ones_like(top), top=top)


def _attend(q, kv, position, *, of_head: int, **how):
  # Imported where it is used: it is an extra.
  from tokamax import ops

  n, p, page, heads, width = kv.shape
  # The kernel is given the newest key and value as well, and writes neither.
  newest = kv[jnp.arange(n), position // page, position % page, :, :of_head]
  out, _, lse = ops.batched_ragged_paged_attention(
    q,
    newest[:, 0::2],
    newest[:, 1::2],
    kv.reshape(n * p, page, heads, width),
    position + 1,
    jnp.arange(n * p, dtype=jnp.int32),
    jnp.arange(n + 1, dtype=jnp.int32),  # one query a slot
    jnp.full(3, n, jnp.int32),  # all of them decode
    skip_kv_update=True,
    return_lse=True,
    **how,
  )
  return out, lse
