"""Links that scale an advantage by how uncertain the policy was.

signals['old_entropy'] [N, T] are entropies, nats, of the distributions that
tokens were drawn from, when the update begins. What is not trained on neither
counts nor changes.
"""

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.advantage import chain, group_stats, normalize, returns
from agentrl.types import Array, Batch, Credit, Metrics, Signals

Linked = tuple[Credit, Metrics]
By = domain.Columns

_NEEDS = ('signal:old_entropy', '*by')


def turn_means(x, mask, batch: Batch) -> tuple[Array, Array]:
  """Mean of x [N, T] over the masked tokens of each turn, and how many.

  The mean of equal values is that value, to the last bit.
  Returns: [B, K] each; 0 where no token is masked.
  """
  chex.assert_equal_shape([x, mask])
  ids = batch.rows.traj, batch.rows.turn, *batch.turns.valid.shape
  count = segment.to_turns(mask.astype(x.dtype), *ids)
  total = segment.to_turns(jnp.where(mask, x, 0), *ids)
  high = segment.largest_turns(x, mask, *ids)
  low = -segment.largest_turns(-x, mask, *ids)
  mean = jnp.where(low == high, high, total / jnp.maximum(count, 1))
  return jnp.where(count > 0, mean, 0), count


def factor(x, mask, cell, lam) -> Array:
  """α = exp(−λ u) / mean exp(−λ u),  u = (x − min) / (max − min) of the cell.

  Args:
    x, mask, cell: [B, K]; what is not masked gets 1
  Returns: [B, K], 1 on average over each cell, and where max = min
  """
  chex.assert_equal_shape([x, mask, cell])
  ids, flat, part = cell.reshape(-1), x.reshape(-1), mask.reshape(-1)
  high = segment.largest(flat, ids, part)
  low = -segment.largest(-flat, ids, part)
  width = jnp.where(part & (high > low), high - low, 1)
  u = jnp.where(part & (high > low), (flat - low) / width, 0)
  weight = jnp.exp(-lam * u)
  count = segment.total(part.astype(x.dtype), ids)
  mean = segment.total(weight * part, ids) / jnp.maximum(count, 1)
  return jnp.where(part, weight / mean, 1).reshape(x.shape)


@registry.register('link', needs=_NEEDS, takes='any')
def entropy_factor(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  lam: domain.Number = 1.0,
) -> Linked:
  """A_k ← α_k A_k, α the `factor` of the turn's mean entropy (AEM, 2605.00425).

  λ > 0 teaches more where the policy was sure, λ < 0 where it was not.
  """
  h = signals['old_entropy']
  trained = batch.rows.sampled & (credit.weight > 0)
  mean, count = turn_means(h, trained, batch)
  enters = group_stats.counted(batch, 'turn') & (count > 0)
  alpha = factor(mean, enters, group_stats.cells(batch, by), lam)
  at = segment.to_tokens(alpha, batch.rows.traj, batch.rows.turn)
  n = jnp.sum(enters).astype(alpha.dtype)
  spread = jnp.sum(jnp.where(enters, jnp.abs(alpha - 1), 0))
  credit = credit.replace(turn=alpha * credit.turn, token=at * credit.token)
  return credit, {'entropy_factor': (spread, n)}


@registry.register('link', needs=_NEEDS, takes='any', leaves='token')
def entropy_boost(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = (),
  coef: domain.Number = 0.2,
) -> Linked:
  """A_t ← A_t (1 + a z(H_t)), z-scored over tokens (AEPO, arXiv 2510.14545)."""
  h = signals['old_entropy']
  chex.assert_equal_shape([h, credit.token])

  told = returns.as_tokens(credit, h)
  z, _ = group_stats.on_tokens(
    normalize.zscore(1e-6), told, batch, by=by, unit='token'
  )
  a = chain.token_advantage(credit, batch.rows)
  return returns.as_tokens(credit, a * (1 + coef * z.token)), {}
