"""Entropy links: scale an advantage by the uncertainty of the policy.

signals['old_entropy'] [N, T] are entropies, nats, of the distributions that
tokens were drawn from, when the update begins. What is not trained on neither
counts nor changes.
"""

import chex
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats, returns
from agentrl.domain import Columns, Number
from agentrl.types import Array, Linked, LinkInputs

_NEEDS = ('signal:old_entropy', '*by')


def factor(x, mask, cell, lam, size=None) -> Array:
  """α = exp(−λ u) / mean exp(−λ u),  u = (x − min) / (max − min) of the cell.

  Args:
    x, mask, cell: [B, K]; what is not masked gets 1
    size: [B, K], as of `ops.group_moments`
  Returns: [B, K], 1 on average over each cell, and where max = min
  """
  chex.assert_equal_shape([x, mask, cell])
  m = ops.group_moments(x, cell, mask=mask, size=size)
  u = jnp.where(mask, ops.min_max(x, m), 0).reshape(-1)
  ids, part = cell.reshape(-1), mask.reshape(-1)
  weight = jnp.exp(-lam * u)
  count = segment.segment_sum(part.astype(x.dtype), ids)
  mean = segment.segment_sum(weight * part, ids) / jnp.maximum(count, 1)
  return jnp.where(part, weight / mean, 1).reshape(x.shape)


@registry.register('link', needs=_NEEDS, takes='any')
def entropy_factor(
  x: LinkInputs, *, by: Columns = ('group',), lam: Number = 1.0
) -> Linked:
  """A_k ← α_k A_k, α the `factor` of the turn's mean entropy (AEM, 2605.00425).

  λ > 0 teaches more where the policy was sure, λ < 0 where it was not.

  Args:
    lam: λ, how much a difference of entropy weighs; 0: not at all
  """
  h, valid = x.signals['old_entropy'], x.batch.turns.valid
  turn = jnp.arange(valid.size, dtype=jnp.int32).reshape(valid.shape)
  trained = x.batch.rows.sampled & (x.credit.weight > 0)
  pool = group_stats.turn_pool(x.batch)
  m = ops.group_moments(h, turn, mask=trained, level=pool)
  enters = group_stats.counted(x.batch, 'turn') & (m.n > 0)
  cell = group_stats.cells(x.batch, by)
  # A plain sum of n entropies may be wrong by n of its roundings.
  alpha = factor(m.mean, enters, cell, lam, size=m.n * m.mean)
  at = segment.index(x.batch).to_tokens(alpha)
  n = jnp.sum(enters).astype(alpha.dtype)
  spread = jnp.sum(jnp.where(enters, jnp.abs(alpha - 1), 0))
  credit = chain.times(x.credit, alpha).replace(token=at * x.credit.token)
  return credit, {'entropy_factor': (spread, n)}


@registry.register('link', needs=_NEEDS, takes='any', leaves='token')
def entropy_boost(
  x: LinkInputs, *, by: Columns = (), coef: Number = 0.2
) -> Linked:
  """A_t ← A_t (1 + a z(H_t)), z-scored over tokens (AEPO, arXiv 2510.14545).

  Args:
    coef: a, share of A that one deviation of entropy adds
  """
  h = x.signals['old_entropy']
  chex.assert_equal_shape([h, x.credit.token])

  entropy = x.replace(credit=returns.as_tokens(x.credit, h))
  z, _ = group_stats.on_tokens(ops.zscore, entropy, by=by, unit='token')
  a = chain.token_advantage(x.credit, x.batch.rows)
  return returns.as_tokens(x.credit, a * (1 + coef * z.token)), {}
