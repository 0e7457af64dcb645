"""Credit of turns that several trajectories share.

turns.node is equal where a turn is the same one, sampled once and then
branched from; a turn's parent is the turn before it in its trajectory, a
tree's root is its group. The tokens of a shared turn weigh in one of the
trajectories only (types.Rows), so what that one is credited with must stand
for all of them.
"""

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.advantage import group_stats
from agentrl.types import Array, Batch, Credit, Metrics, Signals

Linked = tuple[Credit, Metrics]


def means(x, mask, cell) -> tuple[Array, Array]:
  """Mean of x over the masked entries of each cell, and how many: [B, K].

  The mean of equal values is that value, to the last bit.
  """
  chex.assert_equal_shape([x, mask, cell])
  ids, flat, part = cell.reshape(-1), x.reshape(-1), mask.reshape(-1)
  n = segment.total(part.astype(x.dtype), ids)
  total = segment.total(flat, ids, part)
  high = segment.largest(flat, ids, part)
  low = -segment.largest(-flat, ids, part)
  mean = jnp.where(low == high, high, total / jnp.maximum(n, 1))
  mean = jnp.where(n > 0, mean, 0)
  return mean.reshape(x.shape), n.reshape(x.shape)


def gains(x, batch: Batch, shrink: float) -> Array:
  """D(n) = V(n) − V(root) of every turn, 0 where the trajectory is unscored.

  V(n) = (Σ x + c V(parent)) / (count + c) over the trajectories that pass n;
  V(root) is the mean over the group of x at first turns.
  """
  chex.assert_rank(x, 2)
  mask = group_stats.counted(batch, 'trajectory')
  first = mask & (segment.previous_turn(mask.astype(x.dtype), mask) == 0)
  root, _ = means(x, first, group_stats.cells(batch, ('group',)))
  mean, n = means(x, mask, group_stats.cells(batch, ('node',)))
  pull = shrink / jnp.maximum(n + shrink, 1)
  own = jnp.where(mask, (mean - root) * (1 - pull), 0)
  flip = lambda y: jnp.flip(y, axis=1)  # noqa: E731
  return flip(segment.accumulate_turns(flip(own), flip(pull), flip(mask)))


@registry.register('link', needs=('column:group', 'column:node'))
def tree_advantage(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  shrink: domain.NotNegative = 0.0,
) -> Linked:
  """A(n) = (V(n) − V(parent)) + (V(n) − V(root))   (TreePS-RAG, 2601.06922)

  V(n) is the mean of what the stream holds over the trajectories that pass n,
  the group's mean at the root. Where nothing branches V(n) is the
  trajectory's own: x − mean, and twice that at the first turn.

  Args:
    shrink: c ≥ 0, V(n) is pulled to V(parent) as by c more trajectories
  """
  gain = gains(credit.turn, batch, shrink)
  mask = group_stats.counted(batch, 'trajectory')
  a = jnp.where(mask, 2 * gain - segment.previous_turn(gain, mask), 0)
  return credit.replace(turn=a), {}


@registry.register('link', needs=('*by',))
def average(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: domain.Columns = ('node',),
) -> Linked:
  """x = mean of the cell: a shared turn is credited with its leaves' mean.

  ARPO's hard attribution (2507.19849).
  """
  mask = group_stats.counted(batch, 'turn')
  mean, _ = means(credit.turn, mask, group_stats.cells(batch, by))
  return credit.replace(turn=jnp.where(mask, mean, 0)), {}


@registry.register('link', needs=('column:node',), takes='any')
def leaf_weight(credit: Credit, batch: Batch, signals: Signals) -> Linked:
  """w_t ← w_t · the number of counted trajectories that pass its turn.

  After `average` a shared token pulls as its copies would, each with the
  credit of its own leaf: ARPO's soft attribution (2507.19849).
  """
  mask = group_stats.counted(batch, 'turn')
  ones = jnp.ones_like(credit.turn)
  _, n = means(ones, mask, group_stats.cells(batch, ('node',)))
  n = jnp.where(mask, n, 0)
  at = segment.to_tokens(n, batch.rows.traj, batch.rows.turn)
  told = jnp.sum(n), jnp.sum(mask).astype(n.dtype)
  weight = credit.weight * jnp.where(at > 0, at, 1)
  return credit.replace(weight=weight), {'leaves': told}
