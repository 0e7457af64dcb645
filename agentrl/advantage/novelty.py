"""Novelty links: what is seen often pays less.

A count bonus is ('add_constant', 'scale_by_count') with value 1. With a
label of memory `annotations`, or signal `annotated_reward`, in the place of the
constant it is the intrinsic reward of Motif and ONI (arXiv 2410.23022).
"""

from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import group_stats
from agentrl.domain import Columns, NotNegative, OneOf
from agentrl.ops import counting
from agentrl.types import Array, Linked, LinkInputs, Status

WITHIN = ('batch', 'trajectory')


@registry.register('link', needs=('*by',), gives=('along_turns',))
def scale_by_count(
  x: LinkInputs,
  *,
  by: Columns = ('state',),
  power: NotNegative = 0.5,
  within: Annotated[str, OneOf(*WITHIN)] = 'batch',
) -> Linked:
  """x_k / N(s_{k+1})^power, s_{k+1} the state that turn k led to.

  What a trajectory ended in is no turn's state: within a trajectory N is 1 if
  the environment ended it there; where a limit did, and within a batch, the
  last turn gets 0.

  Args:
    by: columns whose equal values make a state; with 'task' counts are of
      each task
    power: 1/2 for the bonus of counts, 3 in Motif
    within: N is how many turns of the 'batch' begin in the state, or how often
      the 'trajectory' has been there by then, this visit included
  """
  mask = counting.counted(x.batch, 'turn')
  cell = group_stats.cells(x.batch, by)
  dtype = x.credit.turn.dtype
  own = within == 'trajectory'
  count = (visits if own else _in_batch)(cell, mask).astype(dtype)  # [B, K]
  count = jnp.maximum(count, 1)
  factor = segment.next_turn(jnp.where(mask, count**-power, 0), mask)
  if own:
    status = x.batch.status[:, None]
    ended = (status == Status.SOLVED) | (status == Status.FAILED)
    factor = jnp.where(segment.last_turn(mask) & ended, 1, factor)
  turn = jnp.where(mask, x.credit.turn * factor, 0).astype(dtype)
  novel = jnp.sum(jnp.where(mask & (count == 1), 1, 0)).astype(dtype)
  total = jnp.sum(mask).astype(dtype)
  return x.credit.replace(turn=turn), {'first_visits': (novel, total)}


def visits(cell: Array, mask: Array) -> Array:
  """Returns N_k = |{j ≤ k: cell_j = cell_k}| of masked turns: [B, K] i32."""
  chex.assert_equal_shape([cell, mask])
  k = cell.shape[1]
  same = cell[:, :, None] == cell[:, None, :]  # [B, K, K]
  so_far = jnp.tri(k, dtype=bool)[None] & mask[:, None, :]
  return jnp.sum(same & so_far, axis=2)


def _in_batch(cell: Array, mask: Array) -> Array:
  """Counts the masked turns of each turn's cell: [B, K] i32."""
  one = mask.astype(jnp.int32).reshape(-1)
  return segment.segment_sum(one, cell.reshape(-1)).reshape(mask.shape)
