"""What was sampled under other probabilities than the learner's own.

The sampler's numerics, its age or its sampling rules differ from the learner:
log-probs b of the behaviour and p of the learner when the update began. Of a
token, or of all sampled tokens of a turn or a trajectory:

  r = exp(clip(Σ (p − b), ±20)),   for the geometric mean the mean, not the sum

Importance weights multiply the advantage, so that no average is divided by
them; a mask takes the weight away. Tokens no policy sampled have r = 1.
"""

from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.advantage import chain, returns
from agentrl.types import Array, Batch, Credit, Metrics, Rows, Signals

Linked = tuple[Credit, Metrics]

UNITS = ('token', *segment.UNITS)
Unit = Annotated[str, domain.OneOf(*UNITS)]
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
  if unit not in UNITS:
    raise ValueError(f'unit={unit!r} is unknown; choose from {UNITS}')
  gap = jnp.where(rows.sampled, old - behaviour(rows, old), 0)
  if unit != 'token':
    b, k = batch.turns.valid.shape
    traj, turn, k = segment.unit(unit, rows.traj, rows.turn, k)
    within = within or segment.sum_within
    gap = within(gap, rows.sampled, traj, turn, b, k)
  return jnp.exp(jnp.clip(gap, -20, 20))


def _share(x: Array, credit: Credit, batch: Batch):
  """Mean of x over tokens that weigh, as (sum, weight)."""
  weight = jnp.where(batch.rows.sampled, credit.weight, 0)
  return jnp.sum(x * weight), jnp.sum(weight)


def _multiply(factor, credit: Credit, batch: Batch, told: Metrics) -> Linked:
  a = chain.token_advantage(credit, batch.rows)
  return returns.as_tokens(credit, factor * a), told


@_factor
def truncated_is(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'token',
  high: domain.Width = 2.0,
) -> Linked:
  """A · min(r, c): truncated importance sampling.

  Unit 'token' is TIS as most libraries have it; 'trajectory' has less bias
  and more variance.
  """
  r = ratio(batch, signals, unit)
  told = {'ratio': _share(r, credit, batch)}
  told['clip'] = _share(r > high, credit, batch)
  return _multiply(jnp.minimum(r, high), credit, batch, told)


@_factor
def masked_is(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'token',
  low: Annotated[float, domain.Real(0, most='high')] = 0.5,
  high: domain.Width = 5.0,
) -> Linked:
  """A · r where low ≤ r ≤ high, 0 elsewhere.

  Unit 'token' is IcePop (arXiv 2510.18855), 'trajectory' masked importance
  sampling. What is masked still counts where a loss is averaged.
  """
  r = ratio(batch, signals, unit)
  keep = (r >= low) & (r <= high)
  told = {'ratio': _share(r, credit, batch)}
  told['mask'] = _share(~keep, credit, batch)
  return _multiply(jnp.where(keep, r, 0), credit, batch, told)


@_mask
def geometric_mask(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  unit: Unit = 'trajectory',
  low: Annotated[float, domain.Real(0, most='high')] = 0.0,
  high: domain.Width = 5.0,
) -> Linked:
  """Weight 0 where the geometric mean of r is outside [low, high].

  The mean does not grow with length, so one width fits all.
  """
  r = ratio(batch, signals, unit, segment.mean_within)
  keep = (r >= low) & (r <= high)
  told = {'ratio': _share(r, credit, batch)}
  told['mask'] = _share(~keep, credit, batch)
  return credit.replace(weight=jnp.where(keep, credit.weight, 0)), told
