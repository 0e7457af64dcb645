"""Attention with grouped queries: over rows, and over a cache of blocks.

Two plain batched products with one contracted axis each: with several, the
backward pass is many times slower on CPU.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from agentrl import mesh
from agentrl.nn import layers
from agentrl.types import Array

MASKED = -1e30  # finite: a row of padding alone must not become NaN
AXES = ('batch', 'kv_heads', None, None)
# Names what attention answers, and its normalisers, for the backward pass
# (transformer.remat).
ANSWER = 'attention'


class PartialSoftmax(NamedTuple):
  """softmax(...) v over some of the keys, not yet normalised."""

  out: Array  # [N, G, R * T, d]  sum of exp(score - top) v
  total: Array  # [N, G, R * T, 1]  sum of exp(score - top)
  top: Array  # [N, G, R * T, 1]  the largest score


def attend(q_NTHd, k_NSGd, v_NSGd, mask_NTS, size: int = 0, cap: float = 0.0):
  """softmax(q k^T / sqrt(size)) v; heads of q share the G heads of k and v.

  Args:
    q_NTHd: queries; H is a multiple of G
    k_NSGd, v_NSGd: keys, values
    mask_NTS: bool, True where a query may look
    size: 0: d
    cap: soft cap of the scores (layers.soft_cap); 0: none
  Returns: [N, T, H, d]
  """
  q = split_heads(q_NTHd, k_NSGd.shape[2])
  k = jnp.transpose(k_NSGd, (0, 2, 3, 1))
  v = jnp.swapaxes(v_NSGd, 1, 2)
  one = part(q, k, v, mask_NTS, size, cap)
  out, total = (checkpoint_name(x, ANSWER) for x in (one.out, one.total))
  out = combine([one._replace(out=out, total=total)])
  return join_heads(out, q_NTHd.shape)


def split_heads(q_NTHd, groups: int):
  """Splits [N, T, H, d] -> [N, G, R * T, d]: queries by their key head."""
  n, t, h, d = q_NTHd.shape
  q = q_NTHd.reshape(n, t, groups, h // groups, d)
  return jnp.moveaxis(q, 1, 3).reshape(n, groups, h // groups * t, d)


def join_heads(out_NGQd, shape: tuple[int, ...]):
  """Inverts split_heads."""
  n, t, h, d = shape
  groups = out_NGQd.shape[1]
  out = out_NGQd.reshape(n, groups, h // groups, t, d)
  return jnp.moveaxis(out, 3, 1).reshape(n, t, h, d)


def part(
  q_NGQd, k_NGdS, v_NGSd, mask_NTS, size: int = 0, cap: float = 0.0
) -> PartialSoftmax:
  """Attends to S keys, to be combined with others; as `attend`."""
  score = _scores(q_NGQd, k_NGdS, mask_NTS, size, cap)
  top = jax.lax.stop_gradient(jnp.max(score, axis=-1, keepdims=True))
  e = jnp.exp(score - top)
  total = jnp.sum(e, axis=-1, keepdims=True)
  out = mesh.einsum(
    'ngqs,ngsd->ngqd', e.astype(v_NGSd.dtype), v_NGSd, axes=AXES
  )
  return PartialSoftmax(out=out, total=total, top=top)


def whole(q_NGQd, k_NGdS, v_NGSd, mask_NTS, size: int = 0, cap: float = 0.0):
  """Runs `combine` on one `part`: [N, G, R * T, d].

  Divided before the product with v, which makes the softmax one kernel of a
  GPU; of many queries it divides more numbers than `combine`.
  """
  score = _scores(q_NGQd, k_NGdS, mask_NTS, size, cap)
  p = jax.nn.softmax(score, axis=-1).astype(v_NGSd.dtype)
  return mesh.einsum('ngqs,ngsd->ngqd', p, v_NGSd, axes=AXES)


def _scores(q_NGQd, k_NGdS, mask_NTS, size: int, cap: float):
  """Scores queries and keys, MASKED where none may look: [N, G, Q, S]."""
  n, g, queries, d = q_NGQd.shape
  t, s = mask_NTS.shape[1:]
  score = mesh.einsum('ngqd,ngds->ngqs', q_NGQd, k_NGdS, axes=AXES)
  score = score.astype(jnp.float32) / math.sqrt(size or d)
  score = layers.soft_cap(score, cap)
  score = score.reshape(n, g, queries // t, t, s)
  score = jnp.where(mask_NTS[:, None, None], score, MASKED)
  return score.reshape(n, g, queries, s)


def combine(parts: list[PartialSoftmax]):
  """Combines the parts into one softmax: [N, G, R * T, d]."""
  whole = merge(parts)
  return whole.out / whole.total.astype(whole.out.dtype)


def merge(parts: list[PartialSoftmax]) -> PartialSoftmax:
  """Merges the parts into one, over all of their keys."""
  if len(parts) == 1:
    return parts[0]
  top = parts[0].top
  for p in parts[1:]:
    top = jnp.maximum(top, p.top)
  scale = [jnp.exp(p.top - top) for p in parts]
  total: Any = sum(p.total * x for p, x in zip(parts, scale, strict=True))
  out: Any = sum(
    p.out * x.astype(p.out.dtype) for p, x in zip(parts, scale, strict=True)
  )
  return PartialSoftmax(out=out, total=total, top=top)


def row_mask(until_NT, window: int = 0):
  """Masks j <= i <= until[j] (`segment_until`): [N, T, T] bool, i before j.

  Padding sees itself. With a window, a token sees itself and the window - 1
  tokens before.
  """
  return query_mask(until_NT, jnp.arange(until_NT.shape[1]), window)


def query_mask(until_NT, ask_Q, window: int = 0):
  """Masks as `row_mask`, the tokens ask_Q alone: [N, Q, T] bool."""
  index = jnp.arange(until_NT.shape[1])
  sees = ask_Q[None, :, None] <= layers.last_readers(until_NT)[:, None]
  sees &= (ask_Q[:, None] >= index[None, :])[None]
  if window:
    at = layers.positions(until_NT)
    sees &= at[:, ask_Q, None] - at[:, None] < window
  return sees
