"""Reweighting links: limit or weigh the credit of earlier links."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats, returns
from agentrl.domain import (
  Columns,
  Name,
  Named,
  Number,
  Positive,
  Real,
  Tuple,
  Width,
)
from agentrl.ops import counting
from agentrl.reward import trajectory
from agentrl.types import Linked, LinkInputs, RewardInputs, Span


@registry.register('link', needs=('span:{name}',), takes='any', leaves='token')
def on_span(x: LinkInputs, *, name: Named = 'call') -> Linked:
  """Keeps A on the tokens of a span, 0 on all others.

  Args:
    name: of types.Span, in small letters; a call has its arguments in it
  """
  here = segment.in_span(x.batch.rows.span, Span[name.upper()])
  a = chain.token_advantage(x.credit, x.batch.rows)
  return returns.as_tokens(x.credit, jnp.where(here, a, 0)), {}


@registry.register('link', needs=('term:*terms',))
def gate(
  x: LinkInputs,
  *,
  terms: Annotated[tuple[str, ...], Tuple(Name('a term'), least=1)] = (
    'outcome',
  ),
  scales: Annotated[tuple[float, ...], Tuple(Real(), like='terms')] = (1.0,),
  thresholds: Annotated[tuple[float, ...], Tuple(Real(), like='terms')] = (
    1.0,
  ),
  otherwise: Number = 0.0,
) -> Linked:
  """Keeps x_k where s_f Σ_j y_{f,j} ≥ t_f for every term f, else `otherwise`.

  A condition on a stream, of the whole trajectory. After `min_max` it pays
  preferences to solutions alone (ToolOrchestra, arXiv 2511.21689).

  Args:
    terms: names of terms y, or 'outcome', the task's own score
    scales: s, what the sum is multiplied by; below 0: it is at most −t
    thresholds: t, of each
    otherwise: what every turn of a trajectory gets that does not pass
  """
  mask = counting.counted(x.batch, 'turn')
  inputs = RewardInputs(
    turns=x.batch.turns.replace(valid=mask),
    outcome=x.batch.outcome,
    status=x.batch.status,
  )
  passed = trajectory.passes(inputs, terms, scales, thresholds)
  value, size = (
    jnp.where(mask, jnp.where(passed[:, None], y, other), 0)
    for y, other in (
      (x.credit.turn, otherwise),
      (chain.size(x.credit), abs(otherwise)),
    )
  )
  dtype = x.credit.turn.dtype
  return x.credit.replace(turn=value.astype(dtype), size=size.astype(dtype)), {}


@registry.register('link')
def clip(x: LinkInputs, *, most: Positive = 3.0) -> Linked:
  """min(max(x_k, −most), most) of every turn.

  Args:
    most: largest magnitude
  """
  value = jnp.clip(x.credit.turn, -most, most)
  return x.credit.replace(turn=value, size=chain.size(x.credit)), {}


@registry.register('link', needs=('term:{name}',), takes='any')
def duration_weight(
  x: LinkInputs, *, name: Named = 'tokens', limit: Width = 10.0
) -> Linked:
  """A · w_k,   w = c / mean(c),   c = min(d / mean(d), limit)

  d_k ≥ 0 is how long turn k took; means go over the turns that count.
  Asynchronous training sees more of what is fast; this gives slow actions
  their share back (arXiv 2509.01684). The mean of w is 1, so that the
  learning rate means what it did; if nothing took any time, w = 1.

  Args:
    name: term of how long a turn took
    limit: largest multiple of the mean that counts; inf: any
  """
  mask = counting.counted(x.batch, 'turn')
  d = jnp.where(mask, x.batch.turns.terms[name], 0)
  c = jnp.minimum(d / _mean(d, mask), limit)
  c = jnp.where(mask & (jnp.sum(d) > 0), c, 1)
  w = jnp.where(mask, c / _mean(jnp.where(mask, c, 0), mask), 1)
  metrics = {'duration_weight': (jnp.max(w), jnp.ones_like(w[0, 0]))}
  token = x.credit.token * segment.index(x.batch).to_tokens(w)
  return chain.times(x.credit, w).replace(token=token), metrics


def _mean(x, mask):
  """Averages over the mask; 1 where it would be 0."""
  mean = jnp.sum(x) / jnp.maximum(jnp.sum(mask), 1)
  return jnp.where(mean > 0, mean, 1)


@registry.register('link', needs=('*by',), gives=('target:rate',))
def success_rate(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  margin: Annotated[float, Real(0, 0.5, above=True, below=True)] = 0.02,
) -> Linked:
  """y = 1 where x > 0, else 0; target['rate'] = its mean over the cell.

  Means count every trajectory once, and stay margin away from 0 and 1. Cells
  that solved all or nothing lose their weight (NFT, arXiv 2505.18116).

  Args:
    margin: least distance of the rate from 0 and 1
  """
  won = x.credit.turn > ops.rounding(chain.size(x.credit)) / 2
  y = x.credit.replace(turn=won.astype(x.credit.turn.dtype), size=None)
  rate, _ = group_stats.on_turns(
    lambda _, m: m.mean, x.replace(credit=y), by=by, unit='trajectory'
  )
  index = segment.index(x.batch)
  r = index.to_tokens(rate.turn)
  mixed = (r > 0) & (r < 1)
  mask = group_stats.counted(x.batch, 'trajectory')
  mask = x.batch.rows.sampled & index.to_tokens(mask)
  count = jnp.sum(mask).astype(r.dtype)
  metrics = {'rate': (jnp.sum(jnp.where(mask, r, 0)), count)}
  return y.replace(
    weight=jnp.where(mixed, x.credit.weight, 0),
    target=x.credit.target | {'rate': jnp.clip(r, margin, 1 - margin)},
  ), metrics


@registry.register('link', needs=('*by',), takes='any')
def flip_below_mean(x: LinkInputs, *, by: Columns = ('group',)) -> Linked:
  """Negates x on trajectories whose return is below the mean of their cell.

  What pulls the policy to a teacher pushes it away there: the gate of TT-OPD
  (arXiv 2605.02943). Returns that are all equal flip nothing.
  """
  start = x.credit.replace(turn=jnp.zeros_like(x.credit.turn), size=None)
  total, _ = returns.episode_return(x.replace(credit=start))
  below, _ = group_stats.on_turns(
    lambda value, m: jnp.where(value < m.mean - m.slack, -1.0, 0),
    x.replace(credit=total),
    by=by,
    unit='trajectory',
  )
  sign = jnp.where(below.turn < 0, -1.0, 1.0)
  token = x.credit.token * segment.index(x.batch).to_tokens(sign)
  n = group_stats.counted(x.batch, 'turn').astype(sign.dtype)
  flipped = jnp.sum(jnp.where(sign < 0, n, 0)), jnp.sum(n)
  credit = chain.times(x.credit, sign).replace(token=token)
  return credit, {'flipped': flipped}
