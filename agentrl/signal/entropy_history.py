"""Entropy history: mean entropy of earlier policies at each turn index."""

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.advantage import group_stats
from agentrl.domain import Count
from agentrl.ops import counting
from agentrl.signal.base import Context, Signal
from agentrl.types import Batch


@registry.register(
  'signal',
  needs=('signal:old_entropy',),
  gives=('signal:entropy_history', 'signal:entropy_history.known'),
  tabular=True,
)
def entropy_history(
  context: Context, *, turns: Count = 64, least: Count = 32
) -> Signal:
  """H̄_k [N, T]: mean over past iterations of the mean entropy at turn k, nats.

  An iteration in which no trajectory got to turn k is passed over. `known`
  [N, T] is 1 where that many turns k were seen, and 0 else: turns that are
  seen rarely have noisy means.

  Args (hyper-parameters):
    turns: S, turn indices kept apart; later ones share the last place
    least: turns k that must have been seen before H̄_k is known
  """

  def init():
    return {x: jnp.zeros(turns) for x in ('total', 'iterations', 'turns')}

  def score(state, batch: Batch, signals):
    history = state.signal['entropy_history']
    mean = history['total'] / jnp.maximum(history['iterations'], 1)
    enough = (history['turns'] >= least).astype(mean.dtype)
    fields = {'entropy_history': mean, 'entropy_history.known': enough}
    return {k: _at_tokens(x, batch) for k, x in fields.items()}, {}

  def update(state, batch: Batch, signals, credit):
    history = state.signal['entropy_history']
    entropy, tokens, seen = by_turn(signals['old_entropy'], batch, turns)
    there = (tokens > 0).astype(entropy.dtype)
    history = {
      'total': history['total'] + entropy / jnp.maximum(tokens, 1),
      'iterations': history['iterations'] + there,
      'turns': history['turns'] + seen,
    }
    history = jax.lax.stop_gradient(history)
    return state.replace(
      signal={**state.signal, 'entropy_history': history}
    ), {}

  return Signal('score_then_update', score, update, init=init)


def by_turn(x, batch: Batch, size: int):
  """Sum of x [N, T] over trained tokens, their number, and that of turns: [S].

  By turn index; those from S - 1 on are one.
  """
  rows, pool = batch.rows, group_stats.turn_pool(batch)
  mask = rows.sampled & (rows.weight > 0)
  mask &= pool.spread(counting.counted(batch, 'turn'))
  total, count = pool.add(jnp.where(mask, x, 0)), pool.add(mask.astype(x.dtype))
  each = jnp.stack([total, count, (count > 0).astype(x.dtype)])
  return jnp.einsum('xbk,ks->xs', each, _places(batch, size).astype(x.dtype))


def _places(batch: Batch, size: int):
  """Place of each turn in the history: [K, S] one-hot."""
  k = batch.turns.valid.shape[1]
  return jax.nn.one_hot(jnp.minimum(jnp.arange(k), size - 1), size)


def _at_tokens(table, batch: Batch):
  """table [S] at the turn of each token: [N, T]."""
  each = _places(batch, table.shape[0]) @ table
  each = jnp.broadcast_to(each[None], batch.turns.valid.shape)
  return group_stats.turn_pool(batch).spread(each)
