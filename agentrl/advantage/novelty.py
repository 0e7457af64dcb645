"""Novelty links: what is seen often pays less.

A count bonus is ('add_constant', 'scale_by_count') with value 1. With a
judge's term in the place of the constant it is the intrinsic reward of Motif
and ONI (arXiv 2410.23022) where labels are stored by state; a reward network
that is learned from them is no link.
"""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import group_stats
from agentrl.domain import Columns, NotNegative
from agentrl.ops import counting
from agentrl.types import Linked, LinkInputs


@registry.register('link', needs=('*by',))
def scale_by_count(
  x: LinkInputs, *, by: Columns = ('state',), power: NotNegative = 0.5
) -> Linked:
  """x_k / N(s_{k+1})^power, and 0 on the last turn.

  N is how many turns of the batch begin in a state, s_{k+1} the state that the
  turn led to. What a trajectory ended in is no turn's state and has no count.

  Args:
    by: columns whose equal values make a state; with 'task' counts are of
      each task
    power: 1/2 for the bonus of counts, 3 in Motif
  """
  mask = counting.counted(x.batch, 'turn')
  cell = group_stats.cells(x.batch, by)
  one = mask.astype(x.credit.turn.dtype)
  count = segment.segment_sum(one.reshape(-1), cell.reshape(-1))
  count = jnp.maximum(count.reshape(mask.shape), 1)
  factor = segment.next_turn(jnp.where(mask, count**-power, 0), mask)
  turn = jnp.where(mask, x.credit.turn * factor, 0).astype(x.credit.turn.dtype)
  novel = jnp.sum(jnp.where(mask & (count == 1), 1, 0)).astype(one.dtype)
  return x.credit.replace(turn=turn), {'first_visits': (novel, jnp.sum(one))}
