"""Attention with grouped queries: over rows, and over a cache."""

import math

import jax
import jax.numpy as jnp

from agentrl import mesh

MASKED = -1e30  # finite: a row of padding alone must not become NaN


def attend(q_NTHd, k_NSGd, v_NSGd, mask_NTS):
  """softmax(q k^T / sqrt(d)) v; heads of q share the G heads of k and v.

  Args:
    q_NTHd: queries; H is a multiple of G
    k_NSGd, v_NSGd: keys, values
    mask_NTS: bool, True where a query may look
  Returns: [N, T, H, d]
  """
  n, t, h, d = q_NTHd.shape
  g = k_NSGd.shape[2]
  q = q_NTHd.reshape(n, t, g, h // g, d)
  axes = ('batch', 'kv_heads', None, None, None)
  score = mesh.einsum('ntgrd,nsgd->ngrts', q, k_NSGd, axes=axes)
  score = score.astype(jnp.float32) / math.sqrt(d)
  score = jnp.where(mask_NTS[:, None, None], score, MASKED)
  weight = jax.nn.softmax(score, axis=-1).astype(v_NSGd.dtype)
  axes = ('batch', None, 'kv_heads', None, None)
  out = mesh.einsum('ngrts,nsgd->ntgrd', weight, v_NSGd, axes=axes)
  return out.reshape(n, t, h, d)


def row_mask(seg_NT):
  """Causal, inside equal segments, never padding: [N, T, T] bool."""
  t = seg_NT.shape[1]
  same = seg_NT[:, :, None] == seg_NT[:, None, :]
  index = jnp.arange(t)
  causal = (index[:, None] >= index[None, :])[None]
  return same & causal & (seg_NT >= 0)[:, None, :]
