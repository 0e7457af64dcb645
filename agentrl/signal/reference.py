"""Log-probs of a reference policy or teacher, in a context of its own."""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Named
from agentrl.ops import counting
from agentrl.signal.base import Context, Signal, nothing

NULLED = 'nulled'  # the reading of rollout.null_observation


def says_nothing(at: str, role: str, reading: str) -> str:
  """Returns why the policy is not compared with that; '' if it can be.

  Args:
    at: where role and reading are named
  """
  if (role, reading) == ('policy', registry.OWN):
    return (
      f'{at}.role must not be the policy itself where {at}.reading is'
      f' {registry.OWN!r}, got {role!r}; name another role, or a reading of'
      ' c.reading'
    )
  if reading == NULLED:
    return (
      f'{at}.reading must have the first message of a trajectory, got'
      f' {reading!r}; name a reading of c.reading, or {registry.OWN!r}'
    )
  return ''


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if the reference differs from the policy and can be read."""
  ((_, hp),) = registry.settings_of(spec, 'signal', 'reference')
  return says_nothing('hp.signal.reference', hp['role'], hp['reading'])


@registry.register(
  'signal',
  needs=('role:{role}', 'reading:{reading}'),
  gives=('signal:ref_logp',),
  check=fits,
  tabular=True,
)
def reference(
  context: Context, *, role: Named = 'reference', reading: Named = registry.OWN
) -> Signal:
  """Returns ref_logp [N, T]: log pi_ref of the sampled tokens, nats.

  Args (hyper-parameters):
    role: whose log-probs; the policy's are those of the update's beginning
    reading: what it reads: 'own' as the policy did, or one of c.reading
  """

  def score(state, batch, signals):
    out = context.reread(role, state.params[role], batch, reading, 'logp')
    return {'ref_logp': out.logp}, {}

  return Signal('score_then_update', score, nothing)


@registry.register('signal', needs=('signal:old_logp', 'signal:ref_logp'))
def kl_by_turn(context: Context) -> Signal:
  """Measures kl/turn_<k>: mean of log π_old − log π_ref over turn k's tokens.

  Errors of earlier turns lead where a teacher has not been, and the distance
  from it grows with k (TCOD, arXiv 2604.24005). Of turns that count.
  """
  del context

  def score(state, batch, signals):
    index, counted = segment.index(batch), counting.counted(batch, 'turn')
    ones = batch.rows.sampled.astype(batch.rows.logp.dtype)
    gap = ones * (signals['old_logp'] - signals['ref_logp'])
    total, n = (
      jnp.sum(jnp.where(counted, index.to_turns(x), 0), axis=0)
      for x in (gap, ones)
    )
    k = range(counted.shape[1])
    return {}, {f'kl/turn_{i}': (total[i], n[i]) for i in k}

  return Signal('score_then_update', score, nothing)
