"""How uncertain earlier policies were at each turn of a trajectory."""

import jax
import jax.numpy as jnp

from agentrl import counting, domain, registry, segment
from agentrl.signal.base import Context, Signal
from agentrl.types import Batch


@registry.register(
  'signal',
  needs=('signal:old_entropy',),
  gives=('signal:entropy_history', 'signal:entropy_history.known'),
)
def entropy_history(
  context: Context, *, turns: domain.Count = 64, least: domain.Count = 32
) -> Signal:
  """H̄_k [N, T]: mean over past iterations of the mean entropy at turn k, nats.

  An iteration in which no trajectory got to turn k is passed over. `known`
  [N, T] is 1 where that many turns k were seen, and 0 else: turns that are
  seen rarely have noisy means.

  Args (hyper-parameters):
    turns: S, how many turns are told apart; later ones share the last place
    least: turns k that must have been seen before H̄_k is known
  """

  def init():
    return {x: jnp.zeros(turns) for x in ('total', 'iterations', 'turns')}

  def score(state, batch: Batch, signals):
    kept = state.signal['entropy_history']
    mean = kept['total'] / jnp.maximum(kept['iterations'], 1)
    known = (kept['turns'] >= least).astype(mean.dtype)
    fields = {'entropy_history': mean, 'entropy_history.known': known}
    return {k: _at_tokens(x, batch) for k, x in fields.items()}, {}

  def update(state, batch: Batch, signals, credit):
    kept = state.signal['entropy_history']
    entropy, tokens, seen = by_turn(signals['old_entropy'], batch, turns)
    there = (tokens > 0).astype(entropy.dtype)
    kept = {
      'total': kept['total'] + entropy / jnp.maximum(tokens, 1),
      'iterations': kept['iterations'] + there,
      'turns': kept['turns'] + seen,
    }
    kept = jax.lax.stop_gradient(kept)
    return state.replace(signal={**state.signal, 'entropy_history': kept}), {}

  return Signal('score_then_update', score, update, init=init)


def by_turn(x, batch: Batch, size: int):
  """Sum of x [N, T] over trained tokens, their number, and that of turns: [S].

  By turn index; those from S - 1 on are one.
  """
  rows = batch.rows
  known = counting.counted(batch, 'turn')
  mask = rows.sampled & (rows.weight > 0)
  mask &= segment.to_tokens(known, rows.traj, rows.turn)
  ids = rows.traj, rows.turn, *batch.turns.valid.shape
  total = segment.to_turns(jnp.where(mask, x, 0), *ids)
  count = segment.to_turns(mask.astype(x.dtype), *ids)
  each = jnp.stack([total, count, (count > 0).astype(x.dtype)])
  return jnp.einsum('xbk,ks->xs', each, _places(batch, size).astype(x.dtype))


def _places(batch: Batch, size: int):
  """Which place of the history each turn has: [K, S] one-hot."""
  k = batch.turns.valid.shape[1]
  return jax.nn.one_hot(jnp.minimum(jnp.arange(k), size - 1), size)


def _at_tokens(table, batch: Batch):
  """table [S] at the turn of each token: [N, T]."""
  b, k = batch.turns.valid.shape
  each = _places(batch, table.shape[0]) @ table
  spread = jnp.broadcast_to(each[None], (b, k))
  return segment.to_tokens(spread, batch.rows.traj, batch.rows.turn)
