"""Small layers: (params, x) -> y. Suffixes: types.py has the letters."""

import math

import jax
import jax.numpy as jnp

from agentrl import mesh


def rms_norm(scale_D, x, eps: float):
  """x / sqrt(mean(x^2) + eps) * scale, in float32 (1910.07467)."""
  y = x.astype(jnp.float32)
  y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
  ones = (1,) * (x.ndim - 1)
  return (y * scale_D.reshape(*ones, -1)).astype(x.dtype)


Axes = tuple[str | None, ...]


def dense(x_NTi, w, inputs: Axes, outputs: Axes):
  """x w: contracts the trailing axes of x with the leading ones of w.

  Args:
    x_NTi: [N, T, inputs...]
    w: [inputs..., outputs...]
    inputs, outputs: logical axes of w; only the first of each may be sharded
  Returns: [N, T, outputs...]

  One product of two matrices: as an einsum over [N, T, .] its gradient with
  respect to w contracts two axes, which on CPU is three times slower.
  """
  n, t = x_NTi.shape[:2]
  shape = w.shape[len(inputs) :]
  k, f = math.prod(w.shape[: len(inputs)]), math.prod(shape)
  x = mesh.reshape(x_NTi, (n * t, k), ('batch', inputs[0]))
  w = mesh.reshape(w.astype(x.dtype), (k, f), (inputs[0], outputs[0]))
  y = mesh.einsum('mk,kf->mf', x, w, axes=('batch', outputs[0]))
  return mesh.reshape(y, (n, t, *shape), ('batch', None, *outputs))


def rotary(x_NTHd, pos_NT, theta: float):
  """Rotary embedding, rotating the two halves of a head (2104.09864).

  (a, b) -> (a cos - b sin, b cos + a sin), angle_i = pos * theta^(-i / (d/2)).
  """
  half = x_NTHd.shape[-1] // 2
  freq = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  angle = pos_NT[..., None, None].astype(jnp.float32) * freq.reshape(
    1, 1, 1, half
  )
  cos, sin = jnp.cos(angle), jnp.sin(angle)  # [N, T, 1, d/2]
  a, b = jnp.split(x_NTHd.astype(jnp.float32), 2, axis=-1)
  out = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
  return out.astype(x_NTHd.dtype)


def positions(seg_NT):
  """Position of each token inside its segment: [N, T] i32.

  Tokens of a segment are contiguous; positions restart where seg changes.
  """
  index = jnp.broadcast_to(
    jnp.arange(seg_NT.shape[1], dtype=jnp.int32)[None], seg_NT.shape
  )
  new = jnp.concatenate(
    [jnp.ones_like(seg_NT[:, :1], bool), seg_NT[:, 1:] != seg_NT[:, :-1]],
    axis=1,
  )
  start = jax.lax.cummax(jnp.where(new, index, 0), axis=1)
  return index - start
