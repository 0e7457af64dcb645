"""Tree links: credit of turns that several trajectories share.

turns.node is equal where a turn is the same one, sampled once and then
branched from; a turn's parent is the turn before it in its trajectory, a
tree's root is its group. The tokens of a shared turn weigh in one of the
trajectories only (types.Rows), so what that one is credited with must stand
for all of them.
"""

import chex
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats
from agentrl.domain import Columns, NotNegative
from agentrl.types import Array, Batch, Linked, LinkInputs


def gains(x, batch: Batch, shrink: float, size=None) -> Array:
  """D(n) = V(n) − V(root) of every turn, 0 where the trajectory is unscored.

  V(n) = (Σ x + c V(parent)) / (count + c) over the trajectories that pass n;
  V(root) is the mean over the group of x at first turns.
  """
  chex.assert_rank(x, 2)
  mask = group_stats.counted(batch, 'trajectory')
  first = mask & (segment.previous_turn(mask.astype(x.dtype), mask) == 0)
  group, node = (group_stats.cells(batch, (by,)) for by in ('group', 'node'))
  root = ops.group_moments(x, group, mask=first, size=size)
  m = ops.group_moments(x, node, mask=mask, size=size)
  pull = shrink / jnp.maximum(m.n + shrink, 1)
  rise = (m.low - root.low) + (m.rise - root.rise)  # of the mean over the root
  own = jnp.where(mask & (root.var > 0), rise * (1 - pull), 0)
  flip = lambda y: jnp.flip(y, axis=1)  # noqa: E731
  return flip(segment.accumulate_turns(flip(own), flip(pull), flip(mask)))


@registry.register('link', needs=('column:group', 'column:node'))
def tree_advantage(x: LinkInputs, *, shrink: NotNegative = 0.0) -> Linked:
  """A(n) = (V(n) − V(parent)) + (V(n) − V(root))   (TreePS-RAG, 2601.06922)

  V(n) is the mean of what the stream holds over the trajectories that pass n,
  the group's mean at the root. Where nothing branches V(n) is the
  trajectory's own: x − mean, and twice that at the first turn.

  Args:
    shrink: c ≥ 0, V(n) is pulled to V(parent) as by c more trajectories
  """
  gain = gains(x.credit.turn, x.batch, shrink, chain.size(x.credit))
  mask = group_stats.counted(x.batch, 'trajectory')
  a = jnp.where(mask, 2 * gain - segment.previous_turn(gain, mask), 0)
  return x.credit.replace(turn=a), {}


@registry.register('link', needs=('column:group', 'column:node'))
def split_zscores(x: LinkInputs) -> Linked:
  """A(k) = z_group(x) + Σ_{j < k, j splits} z_j(x)   (TRACE, 2606.11119)

  A turn splits where trajectories that share it go on apart; z_j compares a
  trajectory with all that pass turn j, for what it did after it. z is the
  z-score of `scale`, 0 where all are equal.
  """
  value = x.credit.turn
  mask = group_stats.counted(x.batch, 'trajectory')
  first = mask & (segment.previous_turn(mask.astype(value.dtype), mask) == 0)
  size = chain.size(x.credit)
  group, node = (group_stats.cells(x.batch, (by,)) for by in ('group', 'node'))
  root = ops.group_moments(value, group, mask=first, size=size)
  m = ops.group_moments(value, node, mask=mask, size=size)
  splits = mask & (m.n > segment.next_turn(m.n, mask))
  own = jnp.where(splits, ops.zscore(value, m), 0)
  flip = lambda y: jnp.flip(y, axis=1)  # noqa: E731
  upto = flip(segment.accumulate_turns(flip(own), 1.0, flip(mask)))
  a = ops.zscore(value, root) + segment.previous_turn(upto, mask)
  return x.credit.replace(turn=jnp.where(mask, a, 0)), {}


@registry.register('link', needs=('*by',))
def average(x: LinkInputs, *, by: Columns = ('node',)) -> Linked:
  """x = mean of the cell: a shared turn is credited with its leaves' mean.

  ARPO's hard attribution (2507.19849).
  """
  mask = group_stats.counted(x.batch, 'turn')
  cell = group_stats.cells(x.batch, by)
  size = chain.size(x.credit)
  m = ops.group_moments(x.credit.turn, cell, mask=mask, size=size)
  top = m.slack / ops.rounding(jnp.ones_like(size))
  value, size = (jnp.where(mask, y, 0) for y in (m.mean, top))
  return x.credit.replace(turn=value, size=size), {}


@registry.register('link', needs=('column:node',), takes='any')
def leaf_weight(x: LinkInputs) -> Linked:
  """w_t ← w_t · the number of counted trajectories that pass its turn.

  After `average` a shared token pulls as its copies would, each with the
  credit of its own leaf: ARPO's soft attribution (2507.19849).
  """
  mask = group_stats.counted(x.batch, 'turn')
  node = group_stats.cells(x.batch, ('node',))
  n = ops.group_moments(jnp.ones_like(x.credit.turn), node, mask=mask).n
  n = jnp.where(mask, n, 0)
  at = segment.index(x.batch).to_tokens(n)
  leaves = jnp.sum(n), jnp.sum(mask).astype(n.dtype)
  weight = x.credit.weight * jnp.where(at > 0, at, 1)
  return x.credit.replace(weight=weight), {'leaves': leaves}
