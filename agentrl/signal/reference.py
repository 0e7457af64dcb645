"""Log-probs of a reference policy or teacher, in a context of its own."""

from agentrl import registry
from agentrl.domain import Named
from agentrl.signal.base import Context, Signal, nothing


@registry.register(
  'signal',
  needs=('role:{role}', 'reading:{reading}'),
  gives=('signal:ref_logp',),
)
def reference(
  context: Context, *, role: Named = 'reference', reading: Named = registry.OWN
) -> Signal:
  """ref_logp [N, T]: log pi_ref of the sampled tokens, nats.

  Args (hyper-parameters):
    role: whose log-probs; the policy's are those of the update's beginning
    reading: what it reads: 'own' as the policy did, or one of c.reading
  """

  def score(state, batch, signals):
    out = context.reread(role, state.params[role], batch, reading, 'logp')
    return {'ref_logp': out.logp}, {}

  return Signal('score_then_update', score, nothing)
