"""Links that compare a value with the others of its cell.

`by` names the columns that make a cell: ids ('group', 'task', 'arm', ...),
'turn', 'state', 'agent', 'node'; () is the whole batch. `unit`, `ddof` and
`singleton` are those of `statistics`. The twins that end in `_tokens` take
the whole advantage of a token, its turn's and its own.
"""

from typing import Annotated

import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.advantage import group_stats
from agentrl.advantage.group_stats import Moments
from agentrl.types import Batch, Credit, Metrics, Signals

Linked = tuple[Credit, Metrics]
By = domain.Columns

_turns = registry.register('link', needs=('*by',))
_tokens = registry.register('link', needs=('*by',), takes='any', leaves='token')


def _less_mean(x, m: Moments):
  return x - m.mean


def _less_others(x, m: Moments):
  # n = 1 gets here only if singletons are 'raw', with mean 0.
  return (x - m.mean) * jnp.where(m.n > 1, m.n / jnp.maximum(m.n - 1, 1), 1)


def zscore(eps: float):
  """f(x, moments) = (x − mean) / (std + eps)."""
  return lambda x, m: (x - m.mean) / (jnp.sqrt(m.var) + eps)


def white(x, m: Moments):
  """(x − mean) / √(var + 1e-8)."""
  return (x - m.mean) / jnp.sqrt(m.var + 1e-8)


@_turns
def center(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean (Dr.GRPO, arXiv 2503.20783)."""
  return group_stats.on_turns(
    _less_mean, credit, batch, by=by, unit=unit, singleton=singleton
  )


@_turns
def scale(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  unit: group_stats.Unit = 'trajectory',
  ddof: Annotated[int, domain.Whole(0, 1)] = 1,
  singleton: group_stats.Singleton = 'zero',
  eps: domain.Positive = 1e-6,
) -> Linked:
  """x / (std + eps), 0 in constant cells (GRPO, arXiv 2402.03300)."""

  def divide(x, m: Moments):
    return jnp.where(m.var > 0, x / (jnp.sqrt(m.var) + eps), 0)

  return group_stats.on_turns(
    divide, credit, batch, by=by, unit=unit, ddof=ddof, singleton=singleton
  )


@_turns
def leave_one_out(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean of the others = n/(n−1) (x − mean) (RLOO, arXiv 2402.14740)."""
  return group_stats.on_turns(
    _less_others, credit, batch, by=by, unit=unit, singleton=singleton
  )


@_turns
def whiten(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = (),
  unit: group_stats.Unit = 'token',
  ddof: Annotated[int, domain.Whole(0, 1)] = 1,
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """(x − mean) / √(var + 1e-8), over the whole batch unless `by` says else."""
  return group_stats.on_turns(
    white, credit, batch, by=by, unit=unit, ddof=ddof, singleton=singleton
  )


@_tokens
def center_tokens(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """x − mean; a token weighs 1/length if the unit is the trajectory."""
  return group_stats.on_tokens(
    _less_mean, credit, batch, by=by, unit=unit, singleton=singleton
  )


@_tokens
def leave_one_out_tokens(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = ('group',),
  unit: group_stats.Unit = 'trajectory',
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """n/(n−1) (x − mean), the mean one of trajectory means (PRIME, 2502.01456).

  x_t n/(n−1) − 1/(n−1) Σ_j mean_l x^j_l, over the n trajectories of the group.
  """
  return group_stats.on_tokens(
    _less_others, credit, batch, by=by, unit=unit, singleton=singleton
  )


@_tokens
def whiten_tokens(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: By = (),
  unit: group_stats.Unit = 'token',
  ddof: Annotated[int, domain.Whole(0, 1)] = 1,
  singleton: group_stats.Singleton = 'zero',
) -> Linked:
  """(x − mean) / √(var + 1e-8) over trained tokens of the whole batch."""
  return group_stats.on_tokens(
    white, credit, batch, by=by, unit=unit, ddof=ddof, singleton=singleton
  )
