"""Drawing a token from logits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.types import Array

NEVER = -1e30
BLOCK = 64  # entries of the vocabulary that are summed first


def truncate(logits_NV, top_k, top_p):
  """Masks logits outside the top k and the top-p nucleus; ties are kept.

  top_p keeps the smallest set of most likely tokens whose mass reaches p
  (1904.09751), after top_k. top_k = 0 and top_p = 1 keep everything.

  Args:
    top_k, top_p: one for all rows, or arrays [N]
  """
  if isinstance(top_k, int) and not top_k and top_p == 1:
    return logits_NV
  n, vocab = logits_NV.shape
  k_N = jnp.broadcast_to(jnp.asarray(top_k, jnp.int32), n)
  p_N = jnp.broadcast_to(jnp.asarray(top_p, jnp.float32), n)

  def cut(x):
    most_N = jnp.where(k_N > 0, jnp.minimum(k_N, vocab), vocab)
    ordered = jnp.flip(jnp.sort(x, axis=-1), axis=-1)
    inside = jnp.arange(vocab)[None] < most_N[:, None]
    ordered = jnp.where(inside, ordered, NEVER)
    mass = jnp.cumsum(jax.nn.softmax(ordered, axis=-1), axis=-1)
    last_N = jnp.sum(mass < p_N[:, None], axis=-1)  # index of the last in
    last_N = jnp.where(p_N < 1, jnp.minimum(last_N, most_N - 1), most_N - 1)
    least = jnp.take_along_axis(ordered, last_N[:, None], axis=-1)
    return jnp.where(x >= least, x, NEVER)

  truncates = jnp.any((k_N > 0) | (p_N < 1))
  return jax.lax.cond(truncates, cut, lambda x: x, logits_NV)


@jax.named_scope('draw')
def draw(logits_NV, keys_N, temperature_N, top_k=0, top_p=1.0):
  """Returns one token per row, from softmax(logits / temperature), truncated.

  Inverts the cumulative distribution at one uniform number per row, in two
  levels (blocks, then inside a block), which costs far less than a random
  number per vocabulary entry. Temperature 0 takes the most likely token.

  Args:
    logits_NV: float32
    keys_N: typed keys, one per row, so that what a row draws does not depend
      on who shares the batch
    temperature_N: f32
    top_k, top_p: see truncate
  Returns: token [N] i32, its log-prob [N] under softmax(logits / temperature)
    before truncation, as the learner computes it too, so that their ratio
    reflects weights and numerics and not truncation (it becomes Rows.logp, and
    losses read it where c.staleness.anchor is 'behaviour'); and the entropy [N]
    (nats) of the distribution sampled from. For temperature 0 log-prob 0 and
    entropy 0.
  """
  greedy = temperature_N <= 0
  hot = jnp.where(greedy, 1.0, temperature_N)[:, None]
  whole_NV = logits_NV / hot
  logits_NV = truncate(whole_NV, top_k, top_p)
  x = _blocks(logits_NV)
  u = jax.vmap(jax.random.uniform)(keys_N)
  best = _likeliest(x)
  token = jnp.where(greedy, best, _invert(x, u, best)).astype(jnp.int32)
  whole_N = x.norm
  if logits_NV is not whole_NV:
    whole_N = jax.nn.logsumexp(whole_NV, axis=-1)
  chosen = jnp.take_along_axis(whole_NV, token[:, None], axis=-1)[:, 0]
  zero = jnp.zeros_like(whole_N)
  return (
    token,
    jnp.where(greedy, zero, chosen - whole_N),
    jnp.where(greedy, zero, x.entropy),
  )


class _Blocks(NamedTuple):
  """Logits of N rows in B blocks, and what one way through them tells."""

  logits: Array  # [N, B, BLOCK]
  top: Array  # [N, B]  the largest of a block
  mass: Array  # [N, B]  probability of a block
  norm: Array  # [N]  logsumexp
  entropy: Array  # [N]  nats


def _blocks(logits_NV) -> _Blocks:
  """Sums over blocks first, so that the vocabulary is gone through twice.

  Once for the largest of each block, once for sums of exp(x - largest).
  """
  n, vocab = logits_NV.shape
  x = jnp.pad(
    logits_NV, ((0, 0), (0, -vocab % BLOCK)), constant_values=NEVER
  ).reshape(n, -1, BLOCK)
  top = jnp.max(x, axis=-1)
  below = x - top[..., None]
  e = jnp.exp(below)
  total, weighted = jnp.sum(e, axis=-1), jnp.sum(e * below, axis=-1)
  most = jnp.max(top, axis=-1, keepdims=True)
  scale = jnp.exp(top - most)
  mass = total * scale
  whole = jnp.sum(mass, axis=-1, keepdims=True)
  # -sum p log p, from differences to the largest logit: those are small.
  moved = jnp.sum(scale * weighted + mass * (top - most), axis=-1)
  return _Blocks(
    logits=x,
    top=top,
    mass=mass / whole,
    norm=(most + jnp.log(whole))[:, 0],
    entropy=jnp.log(whole[:, 0]) - moved / whole[:, 0],
  )


def _block(x: _Blocks, b_N):
  """Returns the logits of one block of each row: [N, BLOCK]."""
  return jnp.take_along_axis(x.logits, b_N[:, None, None], axis=1)[:, 0]


def _likeliest(x: _Blocks):
  b = jnp.argmax(x.top, axis=-1)
  return b * BLOCK + jnp.argmax(_block(x, b), axis=-1)


def _invert(x: _Blocks, u_N, fallback_N):
  """Finds the first index whose cumulative mass exceeds u times the total."""
  mass = jnp.cumsum(x.mass, axis=-1)  # [N, B]
  goal = (u_N * mass[:, -1])[:, None]
  b = jnp.minimum(jnp.sum(mass <= goal, axis=-1), mass.shape[1] - 1)
  inner = jnp.exp(_block(x, b) - x.norm[:, None])
  before = jnp.take_along_axis(mass, jnp.maximum(b - 1, 0)[:, None], axis=1)
  before = jnp.where(b[:, None] > 0, before, 0.0)
  i = jnp.sum(before + jnp.cumsum(inner, axis=-1) <= goal, axis=-1)
  # Rounding may leave nobody, or an entry of no mass: then the likeliest.
  inside = jnp.minimum(i, BLOCK - 1)[:, None]
  fine = (i < BLOCK) & (jnp.take_along_axis(inner, inside, 1)[:, 0] > 0)
  return jnp.where(fine, b * BLOCK + i, fallback_N)
