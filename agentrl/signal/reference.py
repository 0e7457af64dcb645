"""Log-probs of a frozen reference policy."""

from agentrl import domain, registry
from agentrl.model import microbatch
from agentrl.signal.base import Context, Signal, nothing


@registry.register('signal', needs=('role:{role}',), gives=('signal:ref_logp',))
def reference(context: Context, *, role: domain.Named = 'reference') -> Signal:
  """ref_logp [N, T]: log pi_ref of the sampled tokens, nats."""
  apply = context.modules[role].apply

  def score(state, batch, signals):
    out = microbatch.forward(
      apply, state.params[role], batch.rows, ('logp',), context.micro
    )
    return {'ref_logp': out.logp}, {}

  return Signal('score_then_update', score, nothing)
