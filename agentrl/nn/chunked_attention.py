"""Attention of long rows, block by block: no scores of whole rows are held.

The softmax over key blocks is corrected as they come (2205.14135); backwards,
with L the log of each query's normaliser and o its answer, every block of
probabilities p = e^(score − L) is computed again:

  dv = pᵀ do    ds = p (do vᵀ − ⟨do, o⟩)    dq = ds k    dk = dsᵀ q

Blocks after the queries, outside of their window or of other branches alone are
never read, so that packed rows and trees cost what is seen in them. Where
several devices share the tokens of a row, each has the queries of its own and
the keys of all (2407.21783, section 3.3.2). Reverse mode only: the gradient is
written by hand.
"""

import functools
import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from agentrl import mesh
from agentrl.nn import attention, layers
from agentrl.runtime import precision
from agentrl.types import Array

LOW = -1e30  # finite: a difference of two must not become NaN
KEY = ('batch', None, 'kv_heads', None)
ROW = ('batch', None)


class AttentionConfig(NamedTuple):
  """Window, scale and soft cap of a layer, and the block size."""

  window: int = 0  # tokens, the query's own among them; 0: all before
  size: int = 0  # scores are divided by its square root; 0: d
  cap: float = 0.0  # soft cap of the scores; 0: none
  block: int = 128


def attend(c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT):
  """softmax(q kᵀ / √size) v over what each token sees: [N, T, H, d].

  Args:
    q_NTHd: queries; H is a multiple of G
    k_NTGd, v_NTGd: keys, values
    until_NT: i32, the last token that sees each one (layers.segment_until)
  """
  chex.assert_rank([q_NTHd, k_NTGd, v_NTGd, until_NT], [4, 4, 4, 2])
  args = q_NTHd, k_NTGd, v_NTGd, until_NT
  return _attend(c, *place(args, (query(), key(), key(), ROW)))


def place(args, axes) -> list:
  """Returns the arrays, each sharded by its logical axes."""
  pairs = zip(args, axes, strict=True)
  return [mesh.with_logical_sharding(x, *a) for x, a in pairs]


def query() -> tuple[str | None, ...]:
  """Returns logical axes of queries on the mesh that is set."""
  return ('batch', mesh.sharded_axis_or_none('time'), 'heads', None)


def key() -> tuple[str | None, ...]:
  """Returns logical axes of keys and values as made: each device its own."""
  return ('batch', mesh.sharded_axis_or_none('time'), 'kv_heads', None)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(c: AttentionConfig, *args):
  return _fwd(c, *args)[0]


def _fwd(c: AttentionConfig, *args):
  forward, q, k = functools.partial(_forward, c), query(), key()
  out = mesh.shard_map(forward, (q, k, k, ROW), (q, q[:3]))(*args)
  out = tuple(checkpoint_name(x, attention.ANSWER) for x in out)
  return out[0], (*args, *out)


def _bwd(c: AttentionConfig, saved, bar):
  q, k = query(), key()
  axes = q, k, k, ROW, q, q[:3], q
  pull = mesh.shard_map(functools.partial(_backward, c), axes, axes[:3])
  return *pull(*saved, bar), None


_attend.defvjp(_fwd, _bwd)


class Blocks(NamedTuple):
  """A device's rows in blocks of C tokens, I of queries and J of keys.

  R = H / G.
  """

  q: Array  # [I, N, G, R * C, d]
  k: Array  # [J, N, G, C, d]
  v: Array  # [J, N, G, C, d]
  until: Array  # [J, N, C] i32  the last token that sees each key
  asks: Array  # [I, N, C] i32  positions of the queries
  pos: Array  # [J, N, C] i32  positions of the keys
  at: Array | int  # of the first query in the row
  order: Array  # [I, J] i32  blocks of keys, those that each block reads first
  count: Array  # type: ignore[assignment]  # [I] i32  how many it reads


def _cut(c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT) -> Blocks:
  groups, own = k_NTGd.shape[2], q_NTHd.shape[1]
  at = mesh.axis_index('time') * own
  # What a device's last block of queries is filled up with may lie behind.
  size = -(-own // c.block) * c.block
  until = jnp.pad(until_NT, ((0, 0), (0, size)), constant_values=-1)
  pos, until = layers.positions(until), layers.last_readers(until)

  def blocks(x, at, length):
    x = jax.lax.dynamic_slice_in_dim(x, at, length, axis=1)
    return jnp.swapaxes(x.reshape(len(x), -1, c.block), 0, 1)

  q, k, v = (_split(c, x, groups) for x in (q_NTHd, k_NTGd, v_NTGd))
  asks = blocks(pos, at, size)
  until, pos = (blocks(x, 0, len(k) * c.block) for x in (until, pos))
  first = at + c.block * jnp.arange(len(q))[:, None]
  reads = c.block * jnp.arange(len(k))[None] < first + c.block
  reads &= first <= jnp.max(until, (1, 2))[None]
  if c.window:
    near = jnp.min(asks, 2)[:, None] - jnp.max(pos, 2)[None] < c.window
    reads &= jnp.any(near, 2)
  return Blocks(
    q,
    k,
    v,
    until,
    asks,
    pos,
    at,
    order=jnp.argsort(~reads, axis=1, stable=True).astype(jnp.int32),
    count=jnp.sum(reads, axis=1, dtype=jnp.int32),
  )


def _split(c: AttentionConfig, x_NTHd, groups: int):
  """Splits [N, T, H, d] -> [I, N, G, R * C, d], heads by their key head."""
  n, t, h, d = x_NTHd.shape
  x = jnp.pad(x_NTHd, ((0, 0), (0, -t % c.block), (0, 0), (0, 0)))
  x = x.reshape(n, -1, c.block, groups, h // groups, d)
  x = jnp.transpose(x, (1, 0, 3, 4, 2, 5))
  return x.reshape(*x.shape[:3], -1, d)


def _join(c: AttentionConfig, x, t: int):
  """Inverts _split, without what was padded."""
  blocks, n, g, queries, d = x.shape
  x = x.reshape(blocks, n, g, queries // c.block, c.block, d)
  x = jnp.transpose(x, (1, 0, 4, 2, 3, 5))
  return x.reshape(n, blocks * c.block, -1, d)[:, :t]


def _forward(c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT):
  """Computes one device's outputs of queries and heads, and L [N, T, H]."""
  k, v = _whole(k_NTGd, v_NTGd)
  b, t = _cut(c, q_NTHd, k, v, until_NT), q_NTHd.shape[1]

  def answer(i):
    def add(r, carry):
      j, (out, total, top) = b.order[i, r], carry
      score, _, sees = _scores(c, b, i, j)
      new = jnp.maximum(top, jnp.max(score, axis=-1, keepdims=True))
      e, scale = jnp.where(sees, jnp.exp(score - new), 0), jnp.exp(top - new)
      total = total * scale + jnp.sum(e, axis=-1, keepdims=True)
      out = out * scale + _dot('qs,sd->qd', e.astype(b.v.dtype), b.v[j])
      return out, total, new

    zero = jnp.zeros((*b.q.shape[1:-1], 1), jnp.float32)
    carry = jnp.zeros(b.q.shape[1:], jnp.float32), zero, zero + LOW
    out, total, top = jax.lax.fori_loop(0, b.count[i], add, carry)
    return (out / total).astype(b.q.dtype), top + jnp.log(total)

  blocks = jax.lax.map(answer, jnp.arange(len(b.q)))
  out, norm = (_join(c, x, t) for x in blocks)
  return out, norm[..., 0]


def _backward(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, out, norm_NTH, bar
):
  """Computes cotangents of q, k and v of one device's tokens and heads."""
  k, v = _whole(k_NTGd, v_NTGd)
  b = _cut(c, q_NTHd, k, v, until_NT)
  along = jnp.sum(bar.astype(jnp.float32) * out, axis=-1)  # ⟨do, o⟩
  do, norm, along = (
    _split(c, x, k_NTGd.shape[2])
    for x in (bar, norm_NTH[..., None], along[..., None])
  )

  def pull(carry, i):
    def add(r, carry):
      j, (dq, dk, dv) = b.order[i, r], carry
      score, slope, sees = _scores(c, b, i, j)
      p = jnp.where(sees, jnp.exp(score - norm[i]), 0)
      dp = _dot('qd,sd->qs', do[i], b.v[j])
      ds = (p * (dp - along[i]) * slope).astype(b.q.dtype)
      dq += _dot('qs,sd->qd', ds, b.k[j])
      dk = dk.at[j].add(_dot('qs,qd->sd', ds, b.q[i]))
      dv = dv.at[j].add(_dot('qs,qd->sd', p.astype(do.dtype), do[i]))
      return dq, dk, dv

    dq = jnp.zeros(b.q.shape[1:], jnp.float32)
    dq, *carry = jax.lax.fori_loop(0, b.count[i], add, (dq, *carry))
    return tuple(carry), dq.astype(b.q.dtype)

  zeros = (jnp.zeros(b.k.shape, jnp.float32),) * 2
  (dk, dv), dq = jax.lax.scan(pull, zeros, jnp.arange(len(b.q)))
  dq = _join(c, dq, q_NTHd.shape[1])
  # The queries of other devices have looked at these keys as well.
  dk, dv = (
    mesh.psum_scatter(_join(c, x, k.shape[1]), 'time', 1) for x in (dk, dv)
  )
  return dq, dk.astype(k.dtype), dv.astype(v.dtype)


def _whole(*keys_NTGd):
  """Gathers keys or values of all tokens, from each device's own."""
  return tuple(mesh.all_gather(x, 'time', 1) for x in keys_NTGd)


def _dot(formula: str, a, b):
  """Multiplies per row and head, summed in float32; [N, G] stand in front."""
  formula = ','.join('ng' + x for x in formula.split(','))
  formula = formula.replace('->', '->ng')
  return precision.einsum(formula, a, b, preferred_element_type=jnp.float32)


def _scores(c: AttentionConfig, b: Blocks, i, j):
  """Scores queries i and keys j, with slopes, and which are seen.

  Returns: [N, G, R * C, C], d score / d (q·k), [N, 1, R * C, C] bool
  """
  q, k = b.q[i], b.k[j]
  unit = 1 / math.sqrt(c.size or q.shape[-1])
  score: Array = _dot('qd,sd->qs', q, k) * unit
  slope: Array | float = unit
  if c.cap:
    squashed = jnp.tanh(score / c.cap)
    score, slope = c.cap * squashed, unit * (1 - jnp.square(squashed))
  at = jnp.arange(c.block)
  ask, key = b.at + i * c.block + at, j * c.block + at
  sees = ask[None, :, None] <= b.until[j][:, None]
  sees &= (ask[:, None] >= key[None])[None]
  if c.window:
    sees &= b.asks[i][:, :, None] - b.pos[j][:, None] < c.window
  sees = jnp.tile(sees, (1, q.shape[2] // c.block, 1))[:, None]
  return jnp.where(sees, score, LOW), slope, sees
