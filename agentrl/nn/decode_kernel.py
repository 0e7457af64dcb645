"""Attention of one token per slot over its cache: one Pallas kernel of a GPU.

A program takes a slot and a head of keys, and reads the positions of that slot
alone, block after block, with a running softmax. XLA's own way
(attention.whole) is three kernels, over all positions that the cache has.

  m' = max(m, max s),  l' = l e^(m - m') + sum e^(s - m'),
  o' = o e^(m - m') + e^(s - m') v;   the answer is o / l

It is compiled for an H100 and has run on none: tests run it in Pallas' own
interpreter.
"""

import functools
import math

import jax
import jax.numpy as jnp
from absl import logging

from agentrl import mesh
from agentrl.nn import attention, layers

NAMES = ('xla', 'pallas', 'tokamax')  # the last: paged_cache.py
BLOCK = 128  # positions read at a time
ROWS = 16  # queries that a product of Triton has at the least
KEYS = 'batch', 'kv_heads', None, None


def chosen(name: str, head_dim: int) -> bool:
  """Returns whether the kernel is asked for and can run; logs if it cannot."""
  if name != 'pallas':
    return False
  here = jax.default_backend()
  if here != 'gpu':
    _announce(f'a gpu, and this is a {here}')
    return False
  if not fits(head_dim):
    _announce(f'head_dim={head_dim} to be a power of two of at least {ROWS}')
    return False
  return True


@functools.cache
def _announce(needed: str) -> None:
  text = "model.decode_attention='pallas' needs %s; XLA's is used"
  logging.warning(text, needed)


def fits(head_dim: int) -> bool:
  """Returns whether Triton takes heads of this size: powers of two from 16."""
  return head_dim >= ROWS and head_dim & (head_dim - 1) == 0


def attend(
  q_NGRd,
  k_NGdS,
  v_NGSd,
  position_N,
  *,
  window: int = 0,
  size: int = 0,
  cap: float = 0.0,
  interpret: bool = False,
):
  """softmax(q k / sqrt(size)) v over positions 0... position_N: [N, G, R, d].

  Args:
    q_NGRd: the R queries of each head of keys
    position_N: [N] i32, the last position that a slot sees, below S
    window: positions seen at most; 0: all
    size, cap: as attention.attend
    interpret: runs Pallas' interpreter, on any device
  """
  run = functools.partial(
    _attend,
    interpret=interpret,
    window=window,
    scale=1 / math.sqrt(size or q_NGRd.shape[-1]),
    cap=cap,
  )
  placed = mesh.shard_map(run, (KEYS, KEYS, KEYS, ('batch',)), (KEYS,))
  return placed(q_NGRd, k_NGdS, v_NGSd, position_N)[0]


def _attend(q, k, v, position, *, interpret: bool, **how):
  # Imported where it is used: CPU runs do without Pallas.
  from jax.experimental import pallas as pl
  from jax.experimental.pallas import triton

  n, g, r, d = q.shape
  s = v.shape[2]
  rows = max(ROWS, 1 << (r - 1).bit_length())

  def whole(*shape):
    return pl.BlockSpec((None, None, *shape), lambda i, j: (i, j, 0, 0))

  out = pl.pallas_call(
    functools.partial(_kernel, rows=rows, queries=r, positions=s, **how),
    grid=(n, g),
    in_specs=[
      pl.BlockSpec((None,), lambda i, j: (i,)),
      *(whole(*x) for x in ((rows, d), (d, s), (s, d))),
    ],
    out_specs=whole(rows, d),
    out_shape=jax.ShapeDtypeStruct(q.shape, v.dtype),
    compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
    interpret=interpret,
    name='decode_attention',
  )(position, q, k, v)
  return (out,)


def _kernel(
  position_ref,  # [] i32
  q_ref,  # [rows, d], of which `queries` are there
  k_ref,  # [d, S]
  v_ref,  # [S, d]
  out_ref,  # as q_ref
  *,
  rows: int,
  queries: int,
  positions: int,
  window: int,
  scale: float,
  cap: float,
):
  """Answers the queries of one slot and one head of keys."""
  from jax.experimental import pallas as pl
  from jax.experimental.pallas import triton

  last = position_ref[...]
  first = jnp.maximum(last + 1 - window, 0) if window else jnp.int32(0)
  there = (jnp.arange(rows) < queries)[:, None]
  q = triton.load(q_ref, mask=there, other=0.0)
  # Numbers of 32 bits are multiplied as such, as elsewhere.
  dot = functools.partial(triton.dot, allow_tf32=False)

  def block(i, carry):
    out, total, top = carry
    at = pl.ds(i * BLOCK, BLOCK)
    index = i * BLOCK + jnp.arange(BLOCK)
    inside = index < positions
    k = triton.load(k_ref.at[:, at], mask=inside[None], other=0.0)
    v = triton.load(v_ref.at[at, :], mask=inside[:, None], other=0.0)
    score = layers.soft_cap(dot(q, k) * scale, cap)
    seen = (index >= first) & (index <= last)
    score = jnp.where(seen[None], score, attention.MASKED)
    higher = jnp.maximum(top, jnp.max(score, axis=1))
    e = jnp.exp(score - higher[:, None])
    kept = jnp.exp(top - higher)
    out = out * kept[:, None] + dot(e.astype(v.dtype), v)
    return out, total * kept + jnp.sum(e, axis=1), higher

  d = q_ref.shape[1]
  nothing = (
    jnp.zeros((rows, d), jnp.float32),
    jnp.zeros(rows, jnp.float32),
    jnp.full(rows, attention.MASKED, jnp.float32),
  )
  end = last // BLOCK + 1
  out, total, _ = jax.lax.fori_loop(first // BLOCK, end, block, nothing)
  out = (out / total[:, None]).astype(out_ref.dtype)
  triton.store(out_ref, out, mask=there)
