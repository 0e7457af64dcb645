"""Entropy history: mean entropy of past policies at each turn index."""

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
  """Returns H̄_k [N, T]: mean entropy at turn k of past iterations, nats.

  Iterations in which no trajectory reached turn k are skipped. `known` [N, T]
  is 1 once `least` turns k were seen, else 0, since rare turns are noisy.

  Args (hyper-parameters):
    turns: S, number of turn indices; later turns share the last one
    least: turns k to see before H̄_k is known
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
    return state.replace(
      signal={**state.signal, 'entropy_history': history}
    ), {}

  return Signal('score_then_update', score, update, init=init)


def by_turn(x, batch: Batch, size: int):
  """Sums x [N, T] over trained tokens, and counts tokens and turns: [S].

  By turn index; indices from S - 1 on are merged.
  """
  rows, pool = batch.rows, group_stats.turn_pool(batch)
  mask = rows.sampled & (rows.weight > 0)
  mask &= pool.spread(counting.counted(batch, 'turn'))
  total, count = pool.add(jnp.where(mask, x, 0)), pool.add(mask.astype(x.dtype))
  each = jnp.stack([total, count, (count > 0).astype(x.dtype)])
  return jnp.einsum('xbk,ks->xs', each, _places(batch, size).astype(x.dtype))


def _places(batch: Batch, size: int):
  """Maps turns to places in the history: [K, S] one-hot."""
  k = batch.turns.valid.shape[1]
  return jax.nn.one_hot(jnp.minimum(jnp.arange(k), size - 1), size)


def _at_tokens(table, batch: Batch):
  """Reads table [S] at the turn of each token: [N, T]."""
  each = _places(batch, table.shape[0]) @ table
  each = jnp.broadcast_to(each[None], batch.turns.valid.shape)
  return group_stats.turn_pool(batch).spread(each)
