"""Log-probs of a frozen reference policy."""

from agentrl import registry
from agentrl.domain import Named
from agentrl.signal.base import Context, Signal, nothing


@registry.register('signal', needs=('role:{role}',), gives=('signal:ref_logp',))
def reference(context: Context, *, role: Named = 'reference') -> Signal:
  """ref_logp [N, T]: log pi_ref of the sampled tokens, nats."""

  def score(state, batch, signals):
    out = context.outputs(role, state.params[role], batch.rows, 'logp')
    return {'ref_logp': out.logp}, {}

  return Signal('score_then_update', score, nothing)
