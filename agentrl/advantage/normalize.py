"""Normalisation links: compare a value with the others of its group.

`by` names the columns that make a cell: ids ('group', 'task', 'arm', ...),
'turn', 'state', 'agent', 'node'; () is the whole batch. `unit`, `ddof` and
`singleton` are those of `group_stats`. The twins that end in `_tokens` take
the whole advantage of a token, its turn's and its own.
"""

import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats
from agentrl.domain import Columns, Positive
from agentrl.types import Linked, LinkInputs

_turns = registry.register('link', needs=('*by',))
_tokens = registry.register('link', needs=('*by',), takes='any', leaves='token')


@_turns
def center(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean: the baseline of GRPO, and all of Dr.GRPO (arXiv 2503.20783)."""
  return group_stats.on_turns(
    ops.less_mean, x, by=by, unit=unit, singleton=singleton
  )


@_turns
def scale(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
  ddof: group_stats.Ddof = 1,
  singleton: group_stats.Singleton = 'zero',
  eps: Positive = 1e-6,
) -> Linked:
  """x / (std + eps), 0 in constant cells (GRPO, arXiv 2402.03300).

  std is the sample's, over n - 1 unless ddof=0; `center` comes before it.

  Args:
    eps: added to the deviation
  """

  def divide(value, m: ops.Moments):
    return jnp.where(m.var == 0, 0, value / (jnp.sqrt(m.var) + eps))

  return group_stats.on_turns(
    divide, x, by=by, unit=unit, ddof=ddof, singleton=singleton
  )


@_turns
def leave_one_out(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean of the others = n/(n−1) (x − mean) (RLOO, arXiv 2402.14740)."""
  return group_stats.on_turns(
    ops.less_others, x, by=by, unit=unit, singleton=singleton
  )


@_turns
def min_max(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
) -> Linked:
  """(x − min) / (max − min), 0 in constant cells (ToolOrchestra, 2511.21689).

  Prices, seconds and scores become comparable: a stream each, with its weight
  in c.coef. Put a cost in with coef −1, so that the dearest member gets 0.
  Members alone in their cell get 0.

  Args:
    by: columns whose equal values make a cell
    unit: 'trajectory' leaves out all turns of one that has an unjudged turn
  """
  return group_stats.on_turns(ops.min_max, x, by=by, unit=unit)


@_turns
def rank(x: LinkInputs, *, by: Columns = ('group',)) -> Linked:
  """(members with less − members with more) / (n − 1), from −1 to 1.

  Only the order within the cell counts, so that no outlier outweighs the
  others; equal members get equal values. The stream holds one value for each
  trajectory; `by` names columns of trajectories.

  Args:
    by: columns whose equal values make a cell
  """
  mask = group_stats.counted(x.batch, 'trajectory')
  value, shape = x.credit.turn, x.credit.turn.shape
  first = mask & (jnp.cumsum(mask, axis=1) == 1)  # stands for its trajectory
  cell, one = group_stats.cells(x.batch, by).reshape(-1), first.reshape(-1)
  flat = value.reshape(-1)
  size = segment.segment_max(chain.size(x.credit).reshape(-1), cell, one)
  slack = jnp.where(one, ops.rounding(size), 0)
  below = segment.count_below(flat, flat - slack, cell, one)
  above = segment.count_below(-flat, -flat - slack, cell, one)
  n = segment.segment_sum(one.astype(value.dtype), cell)
  place = jnp.where(one, (below - above) / jnp.maximum(n - 1, 1), 0)
  place = jnp.sum(place.reshape(shape), axis=1, keepdims=True)
  turn = jnp.where(mask, place, 0).astype(value.dtype)
  return x.credit.replace(turn=turn), {}


@_turns
def center_unique(x: LinkInputs, *, by: Columns = ('agent',)) -> Linked:
  """x − mean of the different values of the cell (MARS, arXiv 2510.15414).

  A value counts once, however many turns have it: long games do not pull the
  baseline to what is common in them. With m turns of a value, each weighs 1/m.
  Values that differ by rounding alone are one.
  """
  mask = group_stats.counted(x.batch, 'turn')
  value, shape = x.credit.turn, x.credit.turn.shape
  cell, one = group_stats.cells(x.batch, by).reshape(-1), mask.reshape(-1)
  flat, count = value.reshape(-1), one.astype(value.dtype)
  size = segment.segment_max(chain.size(x.credit).reshape(-1), cell, one)
  slack = jnp.where(one, ops.rounding(size), 0)
  below = segment.count_below(flat, flat - slack, cell, one)
  above = segment.count_below(-flat, -flat - slack, cell, one)
  same = segment.segment_sum(count, cell) - below - above
  weight = jnp.where(one, 1 / jnp.maximum(same, 1), 0)
  total = segment.segment_sum(jnp.where(one, weight * flat, 0), cell)
  different = segment.segment_sum(weight, cell)
  mean = (total / jnp.where(different > 0, different, 1)).reshape(shape)
  turn = jnp.where(mask, value - mean, 0).astype(value.dtype)
  metrics = {
    'different': (jnp.sum(weight), jnp.ones((), value.dtype)),
  }
  return x.credit.replace(turn=turn), metrics


@_turns
def whiten(
  x: LinkInputs,
  *,
  by: Columns = (),
  unit: group_stats.Unit = 'token',
  ddof: group_stats.Ddof = 1,
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """(x − mean) / √(var + 1e-8), over the whole batch unless `by` says else."""
  return group_stats.on_turns(
    ops.white, x, by=by, unit=unit, ddof=ddof, singleton=singleton
  )


@_tokens
def center_tokens(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean; a token weighs 1/length if the unit is the trajectory."""
  return group_stats.on_tokens(
    ops.less_mean, x, by=by, unit=unit, singleton=singleton
  )


@_tokens
def leave_one_out_tokens(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """n/(n−1) (x − mean), the mean one of trajectory means (PRIME, 2502.01456).

  x_t n/(n−1) − 1/(n−1) Σ_j mean_l x^j_l, over the n trajectories of the group.
  """
  return group_stats.on_tokens(
    ops.less_others, x, by=by, unit=unit, singleton=singleton
  )


@_tokens
def whiten_tokens(
  x: LinkInputs,
  *,
  by: Columns = (),
  unit: group_stats.Unit = 'token',
  ddof: group_stats.Ddof = 1,
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """(x − mean) / √(var + 1e-8) over trained tokens of the whole batch."""
  return group_stats.on_tokens(
    ops.white, x, by=by, unit=unit, ddof=ddof, singleton=singleton
  )
