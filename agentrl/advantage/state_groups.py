"""State-group links: compare the turns of small cells, such as one state's.

Cells, units and what enters are those of `group_stats`.
"""

import functools
from collections.abc import Callable

import chex
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats
from agentrl.domain import Columns, Count, Count0, Number, Positive
from agentrl.types import Array, Batch, Linked, LinkInputs, Metrics

_cells = registry.register('link', needs=('*by',))
_history = registry.register('link', needs=('*by', 'column:state'))


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if a group can have the members that are required of it."""
  size, name = config.rollout.group_size, 'require_members'
  for scope, hp in registry.settings_of(spec, 'link', name):
    by_group = 'group' in hp['by'] and hp['unit'] == 'trajectory'
    if by_group and hp['least'] > size:
      return (
        f'hp.{scope}.{name}.least must be at most'
        f' rollout.group_size={size}, or nothing is trained on, got'
        f' {hp["least"]}; {size // 2 + 1} is more than half'
      )
  return ''


@registry.register('link', needs=('*by',), check=fits)
def require_members(
  x: LinkInputs,
  *,
  by: Columns = ('group', 'turn'),
  unit: group_stats.Unit = 'trajectory',
  least: Count = 5,
) -> Linked:
  """Keeps x_k, but 0 in cells with fewer than `least` units (CM2, 2602.12268).

  Args:
    least: units that a cell must have
  """
  enough, metrics = group_stats.on_turns(
    lambda value, m: jnp.where(m.n >= least, 1.0, 0),
    x,
    by=by,
    unit=unit,
    singleton='raw',
  )
  return chain.times(x.credit, enough.turn), metrics


@_cells
def drop_flat(
  x: LinkInputs,
  *,
  by: Columns = ('group', 'state'),
  unit: group_stats.Unit = 'turn',
) -> Linked:
  """Takes turns out of the loss whose cell is constant or has one unit only.

  Their x is 0 and so is the weight of their tokens (VPR, arXiv 2605.10325):
  they do not count in the loss's mean either.
  """
  varies, metrics = _varies(x, by, unit)
  mask = segment.index(x.batch).to_tokens(varies)
  weight = jnp.where(mask, x.credit.weight, 0)
  return chain.times(x.credit, varies).replace(weight=weight), metrics


@_cells
def standardize(
  x: LinkInputs,
  *,
  by: Columns = ('turn',),
  unit: group_stats.Unit = 'turn',
  least: Count = 4,
  ddof: group_stats.Ddof = 0,
  eps: Positive = 1e-8,
) -> Linked:
  """(x − mean) / (std + eps); of the whole batch in cells of few units.

  Cells with fewer than `least` units use the batch's mean and deviation
  (VPR's rows without a state group).

  Args:
    least: units that a cell needs for statistics of its own
    eps: added to the deviation
  """

  def on(f, by):
    return group_stats.on_turns(f, x, by=by, unit=unit, ddof=ddof)

  z = functools.partial(ops.zscore, eps=eps)
  own, metrics = on(z, by)
  size, _ = on(lambda value, m: m.n, by)
  whole, _ = on(z, ())
  turn = jnp.where(size.turn >= least, own.turn, whole.turn)
  return x.credit.replace(turn=turn), metrics


# ---- nested cells: the same state, reached through the same states


@_history
def center_history(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  depth: Count0 = 2,
  alpha: Number = 1.0,
  first: Positive = 1.0,
) -> Linked:
  """Σ_k w_k (x − mean_k), as `scale_history` without the division.

  Args:
    depth: K, the longest history compared
    alpha: power of the weights: larger trusts longer histories more
    first: weight of level 0 before the power
  """
  return _over_history(ops.less_mean, x, by, depth, alpha, first)


@_history
def scale_history(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  depth: Count0 = 2,
  alpha: Number = 1.0,
  first: Positive = 1.0,
  eps: Positive = 1e-6,
) -> Linked:
  """Σ_k w_k (x − mean_k) / (std_k + eps), w_k ∝ (k + first)^α.

  Level k compares the turns of a cell `by` whose state and k states before
  it are the same (HGPO, arXiv 2602.22817), with population deviations. A turn
  takes part in level k if it has k turns before it and company there that
  differs in x; the weights of its levels add up to 1, and a turn that is alone
  in its state gets 0.

  Args:
    depth: K, the longest history compared
    first: weight of level 0 before the power: 1 in the paper, 2 in the code
    alpha: power of the weights: larger trusts longer histories more
    eps: added to the deviation
  """
  z = functools.partial(ops.zscore, eps=eps)
  return _over_history(z, x, by, depth, alpha, first)


def _over_history(
  f: Callable[[Array, ops.Moments], Array],
  x: LinkInputs,
  by: Columns,
  depth: int,
  alpha: float,
  first: float,
) -> Linked:
  """Returns the mean of f over the levels of each turn, weighted by w_k."""
  chex.assert_rank(x.credit.turn, 2)
  top = whole = levels = jnp.zeros_like(x.credit.turn)
  metrics: Metrics = {}
  for k, batch in enumerate(_levels(x.batch, depth)):
    cell, near = (*by, 'state'), x.replace(batch=batch)
    y, level_metrics = group_stats.on_turns(
      f, near, by=cell, unit='turn', ddof=0
    )
    varies, _ = _varies(near, cell, 'turn')
    weight = (k + first) ** alpha * varies
    top, whole = top + weight * y.turn, whole + weight
    levels += varies
    metrics = metrics or level_metrics
  turn = top / jnp.where(whole > 0, whole, 1)
  n = jnp.sum(group_stats.counted(x.batch, 'turn')).astype(turn.dtype)
  return x.credit.replace(turn=turn), {**metrics, 'levels': (levels.sum(), n)}


def _levels(batch: Batch, depth: int):
  """Yields the batch with history for a state, k = 0..depth states before it.

  Turns with fewer turns before them do not enter (`scored` False).
  """
  turns = batch.turns
  ids, past = turns.state, turns.state
  has = turns.valid.astype(jnp.int32)
  for k in range(depth + 1):
    if k:
      past, has = (segment.previous_turn(x, turns.valid) for x in (past, has))
      ids = segment.compact_ids(ids.reshape(-1), past.reshape(-1))
      ids = ids.reshape(has.shape)
    scored = turns.scored & (has > 0)
    yield batch.replace(turns=turns.replace(state=ids, scored=scored))


def _varies(x: LinkInputs, by: Columns, unit: str):
  """Turns in cells of several units with different x: [B, K] bool."""
  varies, metrics = group_stats.on_turns(
    lambda value, m: (m.var > 0).astype(value.dtype), x, by=by, unit=unit
  )
  return varies.turn > 0, metrics
