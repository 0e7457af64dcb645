"""Links on what a judge says of each turn: labels, shares, milestones.

The term a judge speaks through is named by `name`. In the jittable
environments it is `progress`, the solver's truth; elsewhere a judge's own. A
turn whose judge failed adds nothing and statistics leave it out.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import counting, domain, registry
from agentrl.types import Array, Batch, Credit, Metrics, Signals

Linked = tuple[Credit, Metrics]


def _add(credit: Credit, batch: Batch, x: Array) -> Linked:
  x = jnp.where(counting.counted(batch, 'turn'), x, 0)
  x = x.astype(credit.turn.dtype)
  return credit.replace(turn=credit.turn + x), {}


@registry.register('link', needs=('term:{name}',))
def add_label(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  name: domain.Named = 'progress',
  above: domain.Number = 0.0,
  good: domain.Number = 1.0,
  bad: domain.Number = 0.0,
) -> Linked:
  """x_k += good where what is said of turn k lies above a threshold, or bad.

  A judge that answers yes or no (AgentEvolver, arXiv 2511.10395).
  """
  said = batch.turns.terms[name]
  chex.assert_equal_shape([said, credit.turn])
  return _add(credit, batch, jnp.where(said > above, good, bad))


@registry.register('link')
def share_outcome(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  against: domain.NotNegative = 0.2,
  solved: domain.Number = 0.5,
) -> Linked:
  """x_k <- s w_k / Σ_j w_j: the sign of the outcome, dealt out by labels.

  s is 1 where the outcome is above `solved`, else -1; w_k is 1 where the
  label x_k agrees with it (x_k > 0 means good), else `against`. The shares of
  a trajectory add up to s (AgentEvolver's `allocation`).
  """
  chex.assert_rank([credit.turn, batch.outcome], [2, 1])
  won = (batch.outcome > solved)[:, None]
  weight = jnp.where((credit.turn > 0) == won, 1.0, against)
  weight = jnp.where(counting.counted(batch, 'turn'), weight, 0)
  weight = weight.astype(credit.turn.dtype)
  total = jnp.sum(weight, axis=1, keepdims=True)
  share = weight / jnp.where(total > 0, total, 1)
  return credit.replace(turn=jnp.where(won, share, -share)), {}


@registry.register('link')
def new_best(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
) -> Linked:
  """x_k <- γ m_k − m_{k−1}, with m_k = max(0, max_{j ≤ k} Σ_{i ≤ j} x_i).

  What the stream holds is how far each turn got; only what goes beyond the
  best so far counts, so that stepping back and forth earns nothing. With γ
  the potential's they are shaping rewards of m (MiRA, arXiv 2603.19685); m
  is not set back to 0 at the end: a milestone that was reached stays paid.
  """
  chex.assert_rank(credit.turn, 2)
  known = counting.counted(batch, 'turn')
  gained = jnp.where(known, credit.turn, 0)
  best = jax.lax.cummax(jnp.cumsum(gained, axis=1), axis=1)
  best = jnp.maximum(best, 0)
  before = jnp.pad(best[:, :-1], ((0, 0), (1, 0)))
  x = jnp.where(known, gamma * best - before, 0)
  return credit.replace(turn=x), {}
