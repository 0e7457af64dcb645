"""Drawing a token from logits."""

import jax
import jax.numpy as jnp

NEVER = -1e30


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


def draw(logits_NV, keys_N, temperature_N, top_k=0, top_p=1.0):
  """One token per row, from softmax(logits / temperature), truncated.

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
    before truncation, as the learner computes it too: a ratio of the two is
    then about weights and numerics, and not about the mass that was kept; and
    the entropy [N] (nats) of the distribution sampled from. For temperature 0
    log-prob 0 and entropy 0.
  """
  greedy = temperature_N <= 0
  hot = jnp.where(greedy, 1.0, temperature_N)[:, None]
  whole_NV = logits_NV / hot
  logits_NV = truncate(whole_NV, top_k, top_p)
  norm = jax.nn.logsumexp(logits_NV, axis=-1, keepdims=True)
  p = jnp.exp(logits_NV - norm)
  u = jax.vmap(jax.random.uniform)(keys_N)
  best = jnp.argmax(logits_NV, axis=-1)
  token = jnp.where(greedy, best, _invert(p, u, best)).astype(jnp.int32)
  whole = norm
  if logits_NV is not whole_NV:
    whole = jax.nn.logsumexp(whole_NV, axis=-1, keepdims=True)
  chosen = jnp.take_along_axis(whole_NV, token[:, None], axis=-1) - whole
  chosen = chosen[:, 0]
  entropy = norm[:, 0] - jnp.sum(p * logits_NV, axis=-1)
  zero = jnp.zeros_like(chosen)
  return (
    token,
    jnp.where(greedy, zero, chosen),
    jnp.where(greedy, zero, entropy),
  )


def _invert(p_NV, u_N, fallback_N, block: int = 64):
  """First index whose cumulative mass exceeds u times the total mass."""
  n, vocab = p_NV.shape
  pad = -vocab % block
  p = jnp.pad(p_NV, ((0, 0), (0, pad))).reshape(n, -1, block)
  mass = jnp.cumsum(p.sum(axis=-1), axis=-1)  # [N, blocks]
  goal = (u_N * mass[:, -1])[:, None]
  b = jnp.minimum(jnp.sum(mass <= goal, axis=-1), mass.shape[1] - 1)[:, None]
  inner = jnp.take_along_axis(p, b[..., None], axis=1)[:, 0]
  below = jnp.where(b > 0, jnp.take_along_axis(mass, b - 1, axis=1), 0.0)
  i = jnp.sum(below + jnp.cumsum(inner, axis=-1) <= goal, axis=-1)
  token = b[:, 0] * block + i
  # Rounding may leave nobody, or an entry of no mass: then the likeliest.
  inside = jnp.minimum(i, block - 1)[:, None]
  fine = (i < block) & (jnp.take_along_axis(inner, inside, 1)[:, 0] > 0)
  return jnp.where(fine, token, fallback_N)
