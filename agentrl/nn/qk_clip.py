"""QK-clip: attention logits are kept below tau by scaling W_q and W_k.

Paper: Kimi K2: Open Agentic Intelligence, 2507.20534, section 2.1. With s_h the
largest logit q_h · k_h / √size of head h over the rows of a step,

  γ_h = min(1, τ / s_h);   W_q^h ← √γ_h W_q^h,   W_k^h ← √γ_h W_k^h

after the optimizer's step, so that every logit of the head becomes γ_h times
what it was and no head below τ changes. Rotary positions and 1 / √size commute
with the scale; biases of q and k take it too.

Grouped queries share a key head. Logits are bilinear: scales a_h of the query
and b of the shared key give a_h b, which must be γ_h for every head of the
group. With b < 1 the queries of heads below τ would have to grow by 1 / b, and
these would no longer stay as they are; so b = 1 and a_h = γ_h. That is what the
paper does with the rotary key that all heads of MLA share.
"""

import functools
import math

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import chunked_attention, layers
from agentrl.nn.chunked_attention import KEY, LOW, ROW, AttentionConfig
from agentrl.runtime import precision


def largest_logits(c: AttentionConfig, q_NTHd, k_NTGd, until_NT):
  """Takes max q kᵀ / √size over what queries see, before a soft cap: [N, H].

  Arguments are those of chunked_attention.attend. -1e30 in rows of padding
  alone. No scores of whole rows are held.
  """
  chex.assert_rank([q_NTHd, k_NTGd, until_NT], [4, 4, 2])
  axes = chunked_attention.query(), KEY, ROW
  args = chunked_attention.place((q_NTHd, k_NTGd, until_NT), axes)
  run = functools.partial(_largest, c)
  return mesh.shard_map(run, axes, (('batch', 'heads'),))(*args)[0]


def _largest(c: AttentionConfig, q_NTHd, k_NSGd, until_NS):
  """Runs `largest_logits` on one device's queries and heads, with all keys."""
  n, t, h, d = q_NTHd.shape
  groups, at = k_NSGd.shape[2], mesh.axis_index('time') * t
  blocks = -(-t // c.block)
  fill = blocks * c.block - t
  q = jnp.pad(q_NTHd, ((0, 0), (0, fill), (0, 0), (0, 0)))
  q = q.reshape(n, blocks, c.block, groups, h // groups, d)
  key = jnp.arange(until_NS.shape[1])
  pos = layers.positions(until_NS)
  asks = jnp.pad(pos, ((0, 0), (0, fill)))
  real = jnp.promote_types(q.dtype, jnp.float32)

  def of_block(i):
    query = at + i * c.block + jnp.arange(c.block)
    sees = (query[:, None] >= key[None])[None]
    sees &= query[None, :, None] <= until_NS[:, None]
    if c.window:
      own = jax.lax.dynamic_slice_in_dim(asks, query[0], c.block, axis=1)
      sees &= own[:, :, None] - pos[:, None] < c.window
    score = precision.einsum(
      'nqgrd,nsgd->ngrqs', q[:, i], k_NSGd, preferred_element_type=real
    )
    score = jnp.where(sees[:, None, None], score, LOW)
    return jnp.max(score, axis=(3, 4)) / math.sqrt(c.size or d)

  top = jnp.max(jax.lax.map(of_block, jnp.arange(blocks)), axis=0)
  return (mesh.pmax(jnp.maximum(top.reshape(n, h), LOW), 'time'),)


def clip(params, logit_LH, tau: float):
  """Scales a decoder's heads of such logits so that none is above tau.

  A head whose largest logit is not finite stays as it is.
  """
  layers = dict(params['layers'])
  over = jnp.isfinite(logit_LH) & (logit_LH > tau)
  gamma_LH = jnp.where(over, tau / logit_LH, 1)
  shared = layers['k'].shape[2] != layers['q'].shape[2]
  root = jnp.sqrt(gamma_LH)
  scales = {'q': gamma_LH} if shared else {'q': root, 'k': root}
  for name, x_LH in scales.items():
    layers[name] *= x_LH[:, None, :, None]
    if f'{name}_bias' in layers:
      layers[f'{name}_bias'] *= x_LH[:, :, None]
  return {**params, 'layers': layers}
