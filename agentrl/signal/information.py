"""How much the answer to a turn changes what the policy says next."""

import jax
import jax.numpy as jnp

from agentrl import counting, registry, segment
from agentrl.model import microbatch
from agentrl.signal.base import Context, Signal, nothing
from agentrl.types import Array, Rows


@registry.register(
  'signal',
  needs=('role:policy', 'signal:old_logp', 'reading:nulled'),
  gives=('signal:information',),
)
def information(context: Context) -> Signal:
  """i_k = mean_t log π(y_t | h, o_k) − mean_t log π(y_t | h, ∅): [B, K].

  y is the message of turn k + 1, o_k the environment's answer to turn k, and
  ∅ what stands in its place in the reading `nulled` (InfoPO, arXiv
  2603.00656). Nats per token; 0 at the last turn, which nobody answers to.
  The policy is that of the update's beginning, and nothing is differentiated.
  """
  apply = context.modules['policy'].apply

  def score(state, batch, signals):
    null, shape = batch.readings['nulled'], batch.turns.valid.shape
    params = state.params['policy']
    out = microbatch.forward(apply, params, null, ('logp',), context.micro)
    told, heard = _per_message(signals['old_logp'], batch.rows, *shape)
    blind, read = _per_message(out.logp, null, *shape)
    both = batch.turns.valid & heard & read
    x = segment.next_turn(jnp.where(both, told - blind, 0), batch.turns.valid)
    x = jax.lax.stop_gradient(x)
    known = counting.counted(batch, 'turn')
    told_apart = (
      jnp.sum(jnp.where(known, x, 0)), jnp.sum(both & known).astype(x.dtype)
    )  # fmt: skip
    return {'information': x}, {'information/mean': told_apart}

  return Signal('score_then_update', score, nothing)


def _per_message(logp: Array, rows: Rows, b: int, k: int):
  """Mean log-prob of each message's tokens, and whether it has any: [B, K]."""
  ones = rows.sampled.astype(logp.dtype)
  total = segment.to_turns(ones * logp, rows.traj, rows.turn, b, k)
  count = segment.to_turns(ones, rows.traj, rows.turn, b, k)
  return total / jnp.maximum(count, 1), count > 0
