"""Baseline links: max-RL, lead of the best, difficulty, optimal token baseline.

The plain ones, means and deviations, are in `normalize`. A value that the
stream holds once for each trajectory stands on all of its turns.
"""

import chex
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats, returns
from agentrl.domain import Chance, Columns, Number
from agentrl.ops import counting
from agentrl.types import Linked, LinkInputs


@registry.register('link', gives=('along_turns',))
def episode_sum(x: LinkInputs) -> Linked:
  """y_k = Σ_j x_j, on every turn of the trajectory."""
  valid = x.batch.turns.valid
  whole, size = (
    jnp.where(valid, segment.sum_turns(y, 1.0, valid)[:, None], 0)
    for y in (x.credit.turn, chain.size(x.credit))
  )
  return x.credit.replace(turn=whole, size=size), {}


@registry.register('link', gives=('along_turns',))
def episode_mean(x: LinkInputs) -> Linked:
  """y_k = mean of x over the turns that count, on all of these."""
  mask = counting.counted(x.batch, 'turn')
  n = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
  mean, size = (
    jnp.where(mask, segment.sum_turns(y, 1.0, mask)[:, None] / n, 0)
    for y in (x.credit.turn, chain.size(x.credit))
  )
  return x.credit.replace(turn=mean, size=size), {}


@registry.register('link', needs=('*by',))
def scale_by_mean(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
) -> Linked:
  """x / mean, 0 where the mean is not positive (MaxRL, arXiv 2602.02710)."""

  def divide(value, m: ops.Moments):
    positive = m.mean > m.slack  # 0 up to rounding is not
    return jnp.where(positive, value / jnp.where(positive, m.mean, 1), 0)

  return group_stats.on_turns(divide, x, by=by, unit=unit)


@registry.register('link', needs=('*by',))
def lead_of_best(x: LinkInputs, *, by: Columns = ('group',)) -> Linked:
  """max x − second largest x for the best of the cell, 0 for the others.

  What the best member adds to the maximum of its cell (arXiv 2503.19595).
  The stream holds one value for each trajectory; `by` names columns of
  trajectories. Two that share the maximum lead by nothing.
  """
  value = x.credit.turn
  chex.assert_rank(value, 2)
  mask = group_stats.counted(x.batch, 'trajectory')
  cell = group_stats.cells(x.batch, by)
  b, k = value.shape

  def top(y, mask):
    flat = segment.segment_max(
      y.reshape(-1), cell.reshape(-1), mask.reshape(-1)
    )
    return flat.reshape(b, k)

  slack = ops.rounding(top(chain.size(x.credit), mask))
  best = mask & (value >= top(value, mask) - slack)
  owner = jnp.broadcast_to(jnp.arange(b, dtype=value.dtype)[:, None], (b, k))
  tied = top(owner, best) != -top(-owner, best)
  second = top(value, mask & ~best)
  lead = jnp.where(jnp.isfinite(second) & ~tied & best, value - second, 0)
  n = jnp.sum(mask).astype(value.dtype)
  metrics = {'best': (jnp.sum(lead > 0).astype(value.dtype), n)}
  return x.credit.replace(turn=lead), metrics


@registry.register('link', needs=('signal:role_baseline',))
def less_role_baseline(x: LinkInputs) -> Linked:
  """x − b, b the average return of the role (SPIRAL, arXiv 2506.24119).

  The stream holds a return on every turn of its trajectory; b is read from
  `memory.role_baseline`, before this return enters it.
  """
  value = x.credit.turn
  b = x.signals['role_baseline']
  chex.assert_equal_shape([value, b])
  mask = group_stats.counted(x.batch, 'trajectory')
  return x.credit.replace(turn=jnp.where(mask, value - b, 0)), {}


@registry.register('link')
def scale_by_nonzero(x: LinkInputs) -> Linked:
  """α x,  α = trajectories / trajectories with any x ≠ 0   (arXiv 2504.02546)

  Groups that teach nothing do not make the step of the others smaller.
  """
  value = x.credit.turn
  chex.assert_rank(value, 2)
  mask = group_stats.counted(x.batch, 'trajectory')
  n = jnp.sum(jnp.any(mask, axis=1)).astype(value.dtype)
  some = jnp.abs(value) > ops.rounding(chain.size(x.credit)) / 2
  live = jnp.sum(jnp.any(mask & some, axis=1)).astype(value.dtype)
  scale = n / jnp.maximum(live, 1)
  return chain.times(x.credit, scale), {'nonzero': (live, n)}


@registry.register('link')
def scale_by_difficulty(
  x: LinkInputs, *, top: Number = 1.0, floor: Chance = 0.5
) -> Linked:
  """w x,  w = floor + (1 − floor) clip(top − D, 0, 1)   (arXiv 2508.04416)

  D is the group's mean outcome: easy tasks count `floor`, hard ones 1.

  Args:
    top: the outcome from which on a task is as easy as can be
    floor: weight of the easiest tasks
  """
  w, judged = _difficulty(x, top, floor)
  n = jnp.sum(judged).astype(w.dtype)
  metrics = {'weight': (jnp.sum(jnp.where(judged, w, 0)), n)}
  mask = group_stats.counted(x.batch, 'trajectory')
  return chain.times(x.credit, jnp.where(mask, w, 0)), metrics


@registry.register('link')
def weigh_by_difficulty(
  x: LinkInputs, *, top: Number = 1.0, floor: Chance = 0.5
) -> Linked:
  """w x / mean(w), w as in `scale_by_difficulty`

  The mean goes over the batch's trajectories, so that the learning rate means
  what it did: where all tasks are as hard, this changes nothing. A lone member
  of a group is not in it and keeps its x.

  Args:
    top: the outcome from which on a task is as easy as can be
    floor: weight of the easiest tasks before division by the mean
  """
  w, judged = _difficulty(x, top, floor)
  here = jnp.any(judged, axis=1)
  total = jnp.sum(jnp.where(here, jnp.max(jnp.where(judged, w, 0), axis=1), 0))
  w = jnp.where(judged, w * jnp.sum(here) / jnp.where(total > 0, total, 1), 1)
  metrics = {'weight': (jnp.max(jnp.where(judged, w, 0)), jnp.ones_like(total))}
  mask = group_stats.counted(x.batch, 'trajectory')
  return chain.times(x.credit, jnp.where(mask, w, 0)), metrics


def _difficulty(x: LinkInputs, top: float, floor: float):
  """Returns weights of the turns, and where D is known: [B, K] each.

  One attempt does not say how hard a task is: its weight is 1.
  """
  value = x.credit.turn
  chex.assert_rank(value, 2)
  outcome = jnp.broadcast_to(x.batch.outcome[:, None], value.shape)
  credit = x.credit.replace(turn=outcome.astype(value.dtype), size=None)
  x = x.replace(credit=credit)

  def over_group(f):
    linked, _ = group_stats.on_turns(f, x, by=('group',), unit='trajectory')
    return linked.turn

  judged = over_group(lambda _, m: jnp.ones_like(m.n)) > 0
  mean = over_group(lambda _, m: m.mean)
  w = floor + (1 - floor) * jnp.clip(top - mean, 0, 1)
  return jnp.where(judged, w, 1), judged


@registry.register(
  'link',
  needs=('signal:old_logp', 'signal:old_sum_sq_prob', '*by'),
  takes='token',
)
def optimal_token_baseline(
  x: LinkInputs, *, by: Columns = ('group',)
) -> Linked:
  """y_t = x_t − B_t,  B_t = Σ_j W_t^j x_t^j / Σ_j W_t^j   (arXiv 2602.07078)

  W_t = Σ_{s ≤ t} (1 − 2 π_s + Σ_v π_v²) is the squared length of the gradient
  of the log-probs so far with respect to the logits. j goes over the cell's
  trajectories that have a t-th sampled token, so that the last tokens of the
  longest one get 0. Every W has 1e-8 added: without any, the mean is plain.
  """
  rows, value = x.batch.rows, x.credit.token
  chex.assert_equal_shape(
    [value, x.signals['old_logp'], x.signals['old_sum_sq_prob']]
  )
  index, valid = segment.index(x.batch), x.batch.turns.valid
  counted = index.to_tokens(group_stats.counted(x.batch, 'trajectory'))
  mask = rows.sampled & counted & (x.credit.weight > 0)
  energy = 1 - 2 * jnp.exp(x.signals['old_logp']) + x.signals['old_sum_sq_prob']
  w = jnp.maximum(segment.prefix_sum(energy, mask, index, valid), 0) + 1e-8
  place = segment.prefix_sum(jnp.ones_like(value), mask, index, valid)
  place = place.astype(jnp.int32)
  columns = index.to_tokens(group_stats.cells(x.batch, by)), place
  # Differences to the largest: equal values give exactly zero.
  top = lambda y: segment.group_reduce(y, mask, *columns, how='max')  # noqa: E731
  less = value - top(value)
  varies = -top(-value) < top(value) - ops.rounding(top(jnp.abs(value)))
  mean = segment.group_reduce(w * less, mask, *columns)
  mean = mean / segment.group_reduce(w, mask, *columns)
  n = jnp.sum(mask).astype(value.dtype)
  metrics = {'energy': (jnp.sum(jnp.where(mask, w, 0)), n)}
  y = jnp.where(mask & varies, less - mean, 0)
  return returns.as_tokens(x.credit, y), metrics
