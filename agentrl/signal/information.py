"""Information gain: effect of an observation on the next message (InfoPO)."""

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.ops import counting
from agentrl.signal.base import Context, Signal, nothing
from agentrl.types import Array, Batch


@registry.register(
  'signal',
  needs=('role:policy', 'signal:old_logp', 'reading:nulled'),
  gives=('signal:information', 'along_turns'),
)
def information(context: Context) -> Signal:
  """i_k = mean_t log π(y_t | h, o_k) − mean_t log π(y_t | h, ∅): [B, K].

  y is the message of turn k + 1, o_k the environment's answer to turn k, and
  ∅ what stands in its place in the reading `nulled` (InfoPO, arXiv
  2603.00656). Nats per token; 0 at the last turn, which nobody answers to.
  The policy is that of the update's beginning, and nothing is differentiated.
  """

  def score(state, batch, signals):
    null = batch.readings['nulled']
    out = context.outputs('policy', state.params['policy'], null, 'logp')
    with_answer, has_answer = _per_message(signals['old_logp'], batch)
    blind, read = _per_message(out.logp, batch.replace(rows=null))
    both = batch.turns.valid & has_answer & read
    x = segment.next_turn(
      jnp.where(both, with_answer - blind, 0), batch.turns.valid
    )
    x = jax.lax.stop_gradient(x)
    counted = counting.counted(batch, 'turn')
    total, n = jnp.sum(jnp.where(counted, x, 0)), jnp.sum(both & counted)
    return {'information': x}, {'information/mean': (total, n.astype(x.dtype))}

  return Signal('score_then_update', score, nothing)


def _per_message(logp: Array, batch: Batch):
  """Averages each message's token log-probs; whether it has any: [B, K]."""
  index = segment.index(batch)
  ones = batch.rows.sampled.astype(logp.dtype)
  total = index.to_turns(ones * logp)
  count = index.to_turns(ones)
  return total / jnp.maximum(count, 1), count > 0
