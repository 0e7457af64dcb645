"""Tree links: credit of turns that several trajectories share.

turns.node is equal where a turn is the same one, sampled once and then
branched from; a turn's parent is the turn before it in its trajectory, a
tree's root is its group. The tokens of a shared turn weigh in one of the
trajectories only (types.Rows), so what that one is credited with must stand
for all of them.
"""

import chex
import jax.numpy as jnp

from agentrl import mesh, ops, registry, segment
from agentrl.advantage import chain, group_stats
from agentrl.domain import Columns, NotNegative
from agentrl.ops import counting
from agentrl.types import Array, Batch, Linked, LinkInputs

_along_tree = registry.register(
  'link', needs=('column:group', 'column:node'), gives=('along_turns',)
)


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


@_along_tree
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


@_along_tree
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


@registry.register(
  'link',
  needs=('column:branch_from', 'column:branch_turn', 'column:branch_token'),
  takes='any',
  leaves='token',
)
def shared_tokens(x: LinkInputs, *, own: NotNegative = 0.0) -> Linked:
  """A_t ← A_t + mean of A_b over the branches b that share token t.

  A_b is the mean over the tokens that branch b has alone. APPO (2606.12384):
  a token before a parting learns from what else came of it. In its code
  branches are not trained themselves.

  Args:
    own: times the weight of tokens that a branch has alone
  """
  batch, credit = x.batch, x.credit
  index, rows = segment.index(batch), batch.rows
  valid, origin = batch.turns.valid, batch.ids['branch_from']  # [B, K], [B]
  turn, token = batch.ids['branch_turn'], batch.ids['branch_token']  # [B]
  branch = (origin >= 0) & counting.trajectories(batch)
  k = jnp.arange(valid.shape[1])[None]
  place = segment.place_in_message(rows, index)  # [N, T]
  parts = index.to_tokens(jnp.where(k == turn[:, None], token[:, None], 0))
  after = index.to_tokens((k >= turn[:, None]) & (origin >= 0)[:, None])
  alone = rows.sampled & after & (place >= parts)
  n = index.to_trajectories(alone.astype(credit.token.dtype))
  whole = chain.token_advantage(credit, rows)
  total = index.to_trajectories(jnp.where(alone, whole, 0))
  value = total / jnp.maximum(n, 1)
  # The last token that a branch shares stands for all up to it.
  at = jnp.where(token > 0, turn, turn - 1)  # [B]
  length = index.to_turns(rows.sampled.astype(jnp.int32))
  start, _ = index.bounds(rows.sampled)
  spot = jnp.arange(rows.traj.size, dtype=jnp.int32).reshape(rows.traj.shape)
  first = index.at_turns(spot, start)

  def put(y, branch, origin, at, token, length, first):
    o, j = jnp.maximum(origin, 0), jnp.maximum(at, 0)
    last = jnp.where(token > 0, token, length[o, j]) - 1
    end = spot.size
    to = jnp.where(branch & (at >= 0), first[o, j] + last, end)
    return jnp.zeros(end + 1, y.dtype).at[to].add(y)[:-1].reshape(spot.shape)

  def over(y):  # [B] -> [N, T], summed over the branches that share a token
    args = y, branch, origin, at, token, length, first
    ends = mesh.auto(put, segment.ROW)(*args)
    return segment.accumulate_tokens(ends, 1.0, rows.sampled, index, valid)

  count = over(jnp.ones_like(value))
  mean = over(value) / jnp.maximum(count, 1)
  weight = credit.weight * jnp.where(alone, own, 1)
  some = (count > 0) & (credit.weight > 0)
  told = {'shared': (jnp.sum(some), jnp.sum(credit.weight > 0))}
  return credit.replace(token=credit.token + mean, weight=weight), told


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
