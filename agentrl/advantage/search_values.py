"""Values of the turns of search trees, by what came of them and by a critic.

Turns of one node are one place of the tree; its children are the turns right
after it, those of a root the first turns of a group. As in Agent Q (arXiv
2408.07199) a turn is worth

  Q̃ = α Q + (1 − α) Q̂

  Q   mean value of the trajectories that pass the node
  Q̂   its place among its siblings by a critique, 1 the best, 0 the worst
"""

from typing import Annotated, NamedTuple

import jax.numpy as jnp

from agentrl import mesh
from agentrl.domain import Name, Tuple
from agentrl.ops import counting
from agentrl.types import Array, Batch

Critique = Annotated[
  tuple[str, ...],
  Tuple(Name('a term')),
  'term that places a turn among its siblings; (): none',
]


class Turns(NamedTuple):
  """Nodes and siblings of the turns of a batch, one table for each depth.

  A turn that does not count is in none.
  """

  mask: Array  # [B, K] bool  counts
  same: Array  # [K, B, B] bool  turn k of both is one node
  sibling: Array  # [K, B, B] bool  they are children of one node, or one node

  @property
  def first(self) -> Array:
    """Marks the first copy of every node: [B, K] bool."""
    b = self.mask.shape[0]
    lower = jnp.arange(b)[None] < jnp.arange(b)[:, None]
    return self.mask & ~jnp.any(self.same & lower[None], axis=2).T


def turns_of(batch: Batch) -> Turns:
  """Returns which turns of a batch are one node, and which are siblings."""
  return mesh.auto(_turns_of, None)(
    batch.ids['group'],
    batch.turns.node,
    counting.counted(batch, 'trajectory'),
  )


def _turns_of(group: Array, node: Array, mask: Array) -> Turns:
  both = mask.T[:, :, None] & mask.T[:, None]  # [K, B, B]
  of_group = (group[:, None] == group[None])[None]
  same = both & of_group & (node.T[:, :, None] == node.T[:, None])
  above = jnp.concatenate([of_group, same[:-1]])
  return Turns(mask, same, both & above)


def means(turns: Turns, value: Array, more: Array | None = None) -> Array:
  """Returns Q = Σ v / (n + m) of every turn: [B, K].

  Args:
    value: v [B] of trajectories
    more: m [B, K], visits that are under way and have brought nothing yet
  """
  same = turns.same.astype(value.dtype)
  n = jnp.sum(same, axis=2).T  # [B, K]
  more = jnp.zeros_like(n) if more is None else more
  total = jnp.einsum('kab,b->ak', same, value)
  return jnp.where(turns.mask, total / jnp.maximum(n + more, 1), 0)


def places(turns: Turns, score: Array) -> Array:
  """Returns Q̂: places among siblings by a score [B, K], in [0, 1].

  Equal scores share the mean of their places; a turn without siblings has 1/2.
  The copies of a node count once, by the score of their first.
  """
  first = turns.first.T[:, None]  # [K, 1, B]: other turns, once for each node
  other = turns.sibling & first
  own = jnp.where(turns.first, score, 0).T  # [K, B]
  mine = jnp.einsum('kab,kb->ka', turns.same.astype(own.dtype), own)
  gap = mine[:, :, None] - own[:, None]  # [K, B, B]
  below = jnp.sum(other & (gap > 0), axis=2)
  equal = jnp.sum(other & (gap == 0), axis=2) - 1  # less its own node
  n = jnp.sum(other, axis=2)
  place = (below + 0.5 * equal) / jnp.maximum(n - 1, 1)
  return jnp.where(turns.mask, jnp.where(n > 1, place, 0.5).T, 0)


def values(
  turns: Turns,
  value: Array,
  critique: Array | None,
  *,
  alpha: float,
  more: Array | None = None,
) -> Array:
  """Returns Q̃ of every turn, [B, K]; without a critique Q.

  Args:
    value: [B] of trajectories
    critique: [B, K] scores of turns
    alpha: weight of what the search found
    more: as of `means`
  """
  q = means(turns, value, more)
  if critique is None:
    return q
  return alpha * q + (1 - alpha) * places(turns, critique)
