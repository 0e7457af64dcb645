"""InfoPO links: standardised information gain, gated by outcome spread."""

import functools
from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats, returns
from agentrl.domain import Columns, Positive, Whole
from agentrl.types import Batch, Credit, Linked, Signals

_link = registry.register('link', needs=('*by',))


@_link
def standardize_followed(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: Columns = ('group',),
  ddof: Annotated[int, Whole(0, 1)] = 1,
  eps: Positive = 1e-6,
) -> Linked:
  """(x − mean) / (std + eps) over turns that another follows; 0 at the last.

  For what is known of a turn by the next one only.
  """
  turns, has = batch.turns, returns.sampled_turns(batch)
  followed = segment.next_turn(has.astype(jnp.int32), has) > 0
  near = batch.replace(turns=turns.replace(scored=turns.scored & followed))

  return group_stats.on_turns(
    functools.partial(ops.zscore, eps=eps),
    credit,
    near,
    by=by,
    unit='turn',
    ddof=ddof,
  )


@_link
def gate_by_spread(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  by: Columns = ('group',),
  temperature: Positive = 0.25,
) -> Linked:
  """x · sigmoid(−σ / T), σ the deviation of outcomes in the cell.

  Half of x where all outcomes are equal, less where they tell trajectories
  apart (InfoPO, arXiv 2603.00656).
  """
  chex.assert_rank([credit.turn, batch.outcome], [2, 1])
  outcome, _ = returns.episode_outcome(
    credit.replace(turn=jnp.zeros_like(credit.turn), size=None),
    batch,
    signals,
  )
  spread, _ = group_stats.on_turns(
    lambda x, m: jnp.sqrt(m.var), outcome, batch, by=by, unit='trajectory'
  )
  gate = jax.nn.sigmoid(-spread.turn / temperature)
  n = group_stats.counted(batch, 'turn').astype(gate.dtype)
  metrics = {'gate': (jnp.sum(gate * n), jnp.sum(n))}
  return chain.times(credit, gate), metrics
