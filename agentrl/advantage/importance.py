"""Importance sampling links: correct for the sampler's own probabilities.

The sampler's numerics or its age differ from the learner:
log-probs b of the behaviour and p of the learner when the update began. Of a
token, or of all sampled tokens of a turn or a trajectory:

  r = exp(clip(Σ (p − b), ±20)),   for the geometric mean the mean, not the sum

Importance weights multiply the advantage, so that no average is divided by
them; a mask takes the weight away. Tokens no policy sampled have r = 1.
"""

import functools
from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh, registry, segment
from agentrl.advantage import chain, returns
from agentrl.domain import OneOf, Positive, Real, Width
from agentrl.segment import TurnIndex
from agentrl.types import Array, Linked, LinkInputs, Metrics, Rows

UNITS = ('token', *segment.UNITS)
Unit = Annotated[str, OneOf(*UNITS), 'tokens whose ratios are multiplied']
_factor = registry.register(
  'link',
  needs=('signal:old_logp',),
  gives=('correction', 'age_factor'),
  takes='any',
  leaves='token',
)
_mask = registry.register(
  'link', needs=('signal:old_logp',), gives=('correction',), takes='any'
)


def behaviour(rows: Rows, otherwise: Array) -> Array:
  """Returns b [N, T], nats; `otherwise` at tokens that no policy sampled."""
  return jnp.where(rows.sampled & (rows.logp != 0), rows.logp, otherwise)


def ratio(x: LinkInputs, unit: str, within=TurnIndex.sum_within) -> Array:
  """Returns r [N, T] of the unit a token is in; units are UNITS.

  Args:
    within: TurnIndex.sum_within or TurnIndex.mean_within
  """
  old, rows = x.signals['old_logp'], x.batch.rows
  chex.assert_equal_shape([old, rows.logp])
  OneOf(*UNITS).check('unit', unit)
  gap = jnp.where(rows.sampled, old - behaviour(rows, old), 0)
  if unit != 'token':
    gap = within(segment.index(x.batch).unit(unit), gap, rows.sampled)
  return jnp.exp(jnp.clip(gap, -20, 20))


def _means(x: LinkInputs, **columns: Array) -> Metrics:
  """Averages over tokens that weigh, as (sum, weight)."""
  weight = jnp.where(x.batch.rows.sampled, x.credit.weight, 0)
  total = jnp.sum(weight)
  return {key: (jnp.sum(y * weight), total) for key, y in columns.items()}


@_factor
def truncated_is(
  x: LinkInputs, *, unit: Unit = 'token', high: Width = 2.0
) -> Linked:
  """A · min(r, c): truncated importance sampling.

  Unit 'token' is TIS as most libraries have it; 'trajectory' has less bias
  and more variance.

  Args:
    high: c, largest ratio that counts; inf: any
  """
  r = ratio(x, unit)
  a = jnp.minimum(r, high) * chain.token_advantage(x.credit, x.batch.rows)
  metrics = _means(x, ratio=r, clip=r > high)
  return returns.as_tokens(x.credit, a), metrics


@_factor
def masked_is(
  x: LinkInputs,
  *,
  unit: Unit = 'token',
  low: Annotated[float, Real(0, most='high')] = 0.5,
  high: Width = 5.0,
) -> Linked:
  """A · r where low ≤ r ≤ high, 0 elsewhere.

  Unit 'token' is IcePop (arXiv 2510.18855), 'trajectory' masked importance
  sampling. What is masked still counts where a loss is averaged.

  Args:
    low: smallest ratio that is kept
    high: largest ratio that is kept; inf: any
  """
  r = ratio(x, unit)
  keep = (r >= low) & (r <= high)
  a = jnp.where(keep, r, 0) * chain.token_advantage(x.credit, x.batch.rows)
  metrics = _means(x, ratio=r, mask=~keep)
  return returns.as_tokens(x.credit, a), metrics


@_mask
def geometric_mask(
  x: LinkInputs,
  *,
  unit: Unit = 'trajectory',
  low: Annotated[float, Real(0, most='high')] = 0.0,
  high: Width = 5.0,
) -> Linked:
  """Zeroes weights where the geometric mean of r is outside [low, high].

  The mean does not grow with length, so one width fits all.

  Args:
    low: smallest mean that is kept
    high: largest mean that is kept; inf: any
  """
  r = ratio(x, unit, TurnIndex.mean_within)
  keep = (r >= low) & (r <= high)
  metrics = _means(x, ratio=r, mask=~keep)
  return x.credit.replace(weight=jnp.where(keep, x.credit.weight, 0)), metrics


@_mask
def second_moment_mask(x: LinkInputs, *, bound: Positive = 0.04) -> Linked:
  """Zeroes weights on the tokens of largest d² until the mean of d² is ≤ bound.

  d = log π_old − log μ of a token, nats; what is kept is the largest set of
  smallest d² whose mean is within the bound (M2PO, arXiv 2510.01161). The mean
  is over all tokens that weigh, of each policy where several have written.
  Gaps of either sign add up, where in a mean of d they would cancel.

  Args:
    bound: largest mean of d² that is left, in nats²
  """
  old, rows, ids = x.signals['old_logp'], x.batch.rows, x.batch.ids
  counts = rows.sampled & (x.credit.weight > 0)
  square = jnp.where(counts, old - behaviour(rows, old), 0) ** 2  # [N, T]
  writer = jnp.zeros_like(rows.traj)
  if 'role' in ids:
    writer = segment.index(x.batch).trajectories_to_tokens(ids['role'])
  smallest = functools.partial(_smallest, bound=bound)
  keep = mesh.auto(smallest, segment.ROW)(square, counts, writer) | ~counts
  metrics = _means(x, second_moment=square, mask=~keep)
  return x.credit.replace(weight=jnp.where(keep, x.credit.weight, 0)), metrics


def _smallest(value: Array, mask: Array, owner: Array, bound: float) -> Array:
  """Marks the smallest values of each owner whose mean is at most the bound.

  [N, T] bool; the mean of the i smallest rises with i.
  """
  flat, live = value.reshape(-1), mask.reshape(-1)
  owner = jnp.where(live, owner.reshape(-1), jnp.iinfo(owner.dtype).max)
  order = jnp.lexsort((flat, owner))
  own, x = owner[order], flat[order]
  new = jnp.append(True, own[1:] != own[:-1])

  def so_far(x):
    """Sums within an owner, up to and with each entry; x >= 0."""
    total = jnp.cumsum(x)
    return total - jax.lax.cummax(jnp.where(new, total - x, 0))

  fits = so_far(x) <= bound * so_far(jnp.ones_like(x))
  fits = jnp.zeros_like(live).at[order].set(fits)
  return (fits & live).reshape(value.shape)
