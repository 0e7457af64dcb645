"""Small layers: (params, x) -> y. Suffixes: types.py has the letters."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import control_flow
from agentrl.nn.lora import Adapted, RowAdapted
from agentrl.runtime import precision


def rms_norm(scale_D, x, eps: float, offset: float = 0.0):
  """x / sqrt(mean(x^2) + eps) * (offset + scale), in float32 (1910.07467)."""
  y = x.astype(jnp.float32)
  y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
  scale = scale_D.reshape((1,) * (x.ndim - 1) + (-1,))
  return (y * (offset + scale if offset else scale)).astype(x.dtype)


def soft_cap(x, cap: float):
  """cap tanh(x / cap): the identity near 0, never beyond ±cap; 0: x itself."""
  return cap * jnp.tanh(x / cap) if cap else x


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  'silu': jax.nn.silu,
  'gelu': functools.partial(jax.nn.gelu, approximate=False),
  'gelu_tanh': functools.partial(jax.nn.gelu, approximate=True),
}
Axes = tuple[str | None, ...]
ROWS = ('batch', None)  # how the tokens of rows lie where a row is whole


def dense(x_NTi, w, inputs: Axes, outputs: Axes, rows: Axes = ROWS):
  """Computes x w: contracts the trailing axes of x with the leading ones of w.

  Args:
    x_NTi: [N, T, inputs...]
    w: [inputs..., outputs...]; if it is Adapted, x w + scale (x a) b, and if
      it is RowAdapted, that with a and b of row n
    inputs, outputs: logical axes of w; only the first of each may be sharded
    rows: logical axes of N and T
  Returns: [N, T, outputs...]

  One product of two matrices: as an einsum over [N, T, .] its gradient with
  respect to w contracts two axes, which on CPU is three times slower. Rows
  whose tokens several devices share cannot be laid end to end, though.
  """
  if isinstance(w, Adapted):
    low = dense(x_NTi, w.a, inputs, (None,), rows)
    added = dense(low, w.b, (None,), outputs, rows)
    return dense(x_NTi, w.w, inputs, outputs, rows) + w.scale * added
  n, t = x_NTi.shape[:2]
  if isinstance(w, RowAdapted):
    rank, x = w.b.shape[1], x_NTi.reshape(n, t, -1)
    a, b = w.a.reshape(n, -1, rank), w.b.reshape(n, rank, -1)
    low = precision.einsum('ntk,nkr->ntr', x, a.astype(x.dtype))
    added = precision.einsum('ntr,nrf->ntf', low, b.astype(x.dtype))
    y = dense(x_NTi, w.w, inputs, outputs, rows)
    return y + w.scale * added.reshape(y.shape)
  shape = w.shape[len(inputs) :]
  k, f = math.prod(w.shape[: len(inputs)]), math.prod(shape)
  w = mesh.reshape(w.astype(x_NTi.dtype), (k, f), (inputs[0], outputs[0]))
  if rows[1] is None:
    x = mesh.reshape(x_NTi, (n * t, k), ('batch', inputs[0]))
    y = mesh.einsum('mk,kf->mf', x, w, axes=('batch', outputs[0]))
  else:
    x = mesh.reshape(x_NTi, (n, t, k), (*rows, inputs[0]))
    y = mesh.einsum('ntk,kf->ntf', x, w, axes=(*rows, outputs[0]))
  return mesh.reshape(y, (n, t, *shape), (*rows, *outputs))


def segment_until(seg_NT):
  """Returns `until` of rows of segments: each one's last token: [N, T] i32.

  A row may hold trees of tokens, depth first: until[t] is the last token that
  sees t, so that i sees j where j <= i <= until[j]. Of a segment all have the
  same, of padding (seg -1) it is -1.
  """
  t = seg_NT.shape[1]
  index = jnp.arange(t, dtype=jnp.int32)[None]
  last = jnp.concatenate(
    [seg_NT[:, 1:] != seg_NT[:, :-1], jnp.ones_like(seg_NT[:, :1], bool)],
    axis=1,
  )
  end = jax.lax.cummin(jnp.where(last, index, t), axis=1, reverse=True)
  return jnp.where(seg_NT >= 0, end, -1)


def last_readers(until_NT):
  """Returns the last token that sees each one; padding sees itself alone."""
  index = jnp.arange(until_NT.shape[1], dtype=jnp.int32)[None]
  return jnp.maximum(until_NT, index)


def positions(until_NT):
  """Counts the tokens that each one sees before itself: [N, T] i32.

  A token adds one, and what ended with the token before it is seen no more.
  """

  def f(until):
    n, t = until.shape
    ended = jnp.zeros((n, t + 1), jnp.int32)
    ended = ended.at[jnp.arange(n)[:, None], last_readers(until) + 1].add(1)
    return jnp.cumsum(1 - ended[:, :-1], axis=1, dtype=jnp.int32) - 1

  return mesh.auto(f, ROWS)(until_NT)


def map_chunks(f, blank, xs, look_NT, tokens: int):
  """Computes f(*xs) chunk by chunk of time, recomputed in the backward pass.

  A chunk in which nobody looks costs nothing: it is blank(*xs).

  Args:
    f, blank: arrays [N, C, ...] -> tree of [N, C, ...], position by position
    xs: arrays [N, T, ...]
    look_NT: bool
    tokens: of a chunk, N * C, about
  Returns: tree of [N, T, ...]
  """
  n, t = look_NT.shape
  pieces = -(-t // max(1, min(t, -(-tokens // n))))
  if pieces == 1:
    return f(*xs)
  size = -(-t // pieces)

  def step(_, x):
    xs, look = x
    anybody = control_flow.lane_max(jnp.any(look))  # else both branches run
    return None, jax.lax.cond(anybody, jax.checkpoint(f), blank, *xs)

  chunks = [_chunks(x, pieces, size) for x in (*xs, look_NT)]
  _, out = jax.lax.scan(step, None, (tuple(chunks[:-1]), chunks[-1]))
  return jax.tree.map(lambda x: _unchunk(x, t), out)


def _chunks(x, pieces: int, size: int):
  """Cuts [N, T, ...] -> [pieces, N, size, ...], padded."""
  pad = pieces * size - x.shape[1]
  x = jnp.pad(x, ((0, 0), (0, pad)) + ((0, 0),) * (x.ndim - 2))
  x = x.reshape(x.shape[0], pieces, size, *x.shape[2:])
  return jnp.moveaxis(x, 1, 0)


def _unchunk(x, t: int):
  """Joins [pieces, N, size, ...] -> [N, T, ...]."""
  x = jnp.moveaxis(x, 0, 1)
  return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :t]
