"""Importance sampling links: correct for the sampler's own probabilities.

The sampler's numerics or its age differ from the learner:
log-probs b of the behaviour and p of the learner when the update began. Of a
token, or of all sampled tokens of a turn or a trajectory:

  r = exp(clip(Σ (p − b), ±20)),   for the geometric mean the mean, not the sum

Importance weights multiply the advantage, so that no average is divided by
them; a mask takes the weight away. Tokens no policy sampled have r = 1.
"""

from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import chain, returns
from agentrl.domain import OneOf, Real, Width
from agentrl.types import Array, Batch, Credit, Linked, Metrics, Rows, Signals

UNITS = ('token', *segment.UNITS)
Unit = Annotated[str, OneOf(*UNITS)]
_factor = registry.register(
  'link', needs=('signal:old_logp',), takes='any', leaves='token'
)
_mask = registry.register('link', needs=('signal:old_logp',), takes='any')


def behaviour(rows: Rows, otherwise: Array) -> Array:
  """b [N, T], nats; `otherwise` at tokens that no policy sampled."""
  return jnp.where(rows.sampled & (rows.logp != 0), rows.logp, otherwise)


def ratio(batch: Batch, signals: Signals, unit: str, within=None) -> Array:
  """r [N, T] of the unit a token is in; units are UNITS.

  Args:
    within: segment.sum_within (default) or segment.mean_within
  """
  old, rows = signals['old_logp'], batch.rows
  chex.assert_equal_shape([old, rows.logp])
  OneOf(*UNITS).check('unit', unit)
  gap = jnp.where(rows.sampled, old - behaviour(rows, old), 0)
  if unit != 'token':
    b, k = batch.turns.valid.shape
    traj, turn, k = segment.unit(unit, rows.traj, rows.turn, k)
    within = within or segment.sum_within
    gap = within(gap, rows.sampled, traj, turn, b, k)
  return jnp.exp(jnp.clip(gap, -20, 20))


def _means(credit: Credit, batch: Batch, **columns: Array) -> Metrics:
  """Means over tokens that weigh, as (sum, weight)."""
  weight = jnp.where(batch.rows.sampled, credit.weight, 0)
  return {x: (jnp.sum(y * weight), jnp.sum(weight)) for x, y in columns.items()}


@_factor
def truncated_is(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'token',
  high: Width = 2.0,
) -> Linked:
  """A · min(r, c): truncated importance sampling.

  Unit 'token' is TIS as most libraries have it; 'trajectory' has less bias
  and more variance.
  """
  r = ratio(batch, signals, unit)
  a = jnp.minimum(r, high) * chain.token_advantage(credit, batch.rows)
  metrics = _means(credit, batch, ratio=r, clip=r > high)
  return returns.as_tokens(credit, a), metrics


@_factor
def masked_is(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'token',
  low: Annotated[float, Real(0, most='high')] = 0.5,
  high: Width = 5.0,
) -> Linked:
  """A · r where low ≤ r ≤ high, 0 elsewhere.

  Unit 'token' is IcePop (arXiv 2510.18855), 'trajectory' masked importance
  sampling. What is masked still counts where a loss is averaged.
  """
  r = ratio(batch, signals, unit)
  keep = (r >= low) & (r <= high)
  a = jnp.where(keep, r, 0) * chain.token_advantage(credit, batch.rows)
  metrics = _means(credit, batch, ratio=r, mask=~keep)
  return returns.as_tokens(credit, a), metrics


@_mask
def geometric_mask(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'trajectory',
  low: Annotated[float, Real(0, most='high')] = 0.0,
  high: Width = 5.0,
) -> Linked:
  """Weight 0 where the geometric mean of r is outside [low, high].

  The mean does not grow with length, so one width fits all.
  """
  r = ratio(batch, signals, unit, segment.mean_within)
  keep = (r >= low) & (r <= high)
  metrics = _means(credit, batch, ratio=r, mask=~keep)
  return credit.replace(weight=jnp.where(keep, credit.weight, 0)), metrics
