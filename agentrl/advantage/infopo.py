"""InfoPO links: standardised information gain, gated by outcome spread."""

import functools

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats, returns
from agentrl.domain import Columns, Positive
from agentrl.types import Linked, LinkInputs

_link = registry.register('link', needs=('*by',))
_of_next = registry.register('link', needs=('*by',), gives=('along_turns',))


@_of_next
def standardize_followed(
  x: LinkInputs,
  *,
  by: Columns = ('group',),
  ddof: group_stats.Ddof = 1,
  eps: Positive = 1e-6,
) -> Linked:
  """(x − mean) / (std + eps) over turns that another follows; 0 at the last.

  For what is known of a turn by the next one only.

  Args:
    eps: added to the deviation
  """
  turns, has = x.batch.turns, returns.sampled_turns(x.batch)
  followed = segment.next_turn(has.astype(jnp.int32), has) > 0
  near = x.batch.replace(turns=turns.replace(scored=turns.scored & followed))

  return group_stats.on_turns(
    functools.partial(ops.zscore, eps=eps),
    x.replace(batch=near),
    by=by,
    unit='turn',
    ddof=ddof,
  )


@_link
def gate_by_spread(
  x: LinkInputs, *, by: Columns = ('group',), temperature: Positive = 0.25
) -> Linked:
  """x · sigmoid(−σ / T), σ the deviation of outcomes in the cell.

  Half of x where all outcomes are equal, less where they tell trajectories
  apart (InfoPO, arXiv 2603.00656).

  Args:
    temperature: T: deviations well above it close the gate
  """
  chex.assert_rank([x.credit.turn, x.batch.outcome], [2, 1])
  start = x.credit.replace(turn=jnp.zeros_like(x.credit.turn), size=None)
  outcome, _ = returns.episode_outcome(x.replace(credit=start))
  outcomes = x.replace(credit=outcome)
  spread, _ = group_stats.on_turns(
    lambda _, m: jnp.sqrt(m.var), outcomes, by=by, unit='trajectory'
  )
  gate = jax.nn.sigmoid(-spread.turn / temperature)
  n = group_stats.counted(x.batch, 'turn').astype(gate.dtype)
  metrics = {'gate': (jnp.sum(gate * n), jnp.sum(n))}
  return chain.times(x.credit, gate), metrics
