"""Persistence of the errors of an implicit PRM, measured while it learns.

Let x be the step rewards that the PRM φ and the policy π of an iteration give
its turns, and x' those that φ' and π' of the iteration before give the same
ones, both up to a scale that does not matter here:

  x = Σ_{l in a_k} (log φ − log π)(a_k,l | ...)

With z(.) a value less its mean over the turns that count, divided by the
deviation, T what the environment knows of a turn and ρ the correlation of x
with T, the errors and their persistence are

  e = z(x) − ρ z(T),   e' = z(x') − ρ' z(T),   corr(e, e').

In tables (`tabular.step_rewards`) the same cells stand for the same turns. What
an error has of the state alone cancels in a policy gradient: the persistence
within states is that of e and e' less their means over the turns of a state.

`configs/studies/measured.py` adds the signal to a method.
"""

import jax
import jax.numpy as jnp

from agentrl import mesh, ops, registry
from agentrl.advantage import chain, group_stats
from agentrl.domain import Named
from agentrl.ops import counting
from agentrl.signal import implicit_prm, step_quality
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, LinkInputs

NAME = 'prm_persistence'
ROLES = ('prm', 'policy')


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if errors are measured where the PRM is as it scores."""
  for i, signal in enumerate(spec.signal):
    if signal == NAME or 'role:prm' not in registry.get('signal', signal).needs:
      continue
    ((_, hp),) = registry.settings_of(spec, 'signal', signal)
    if hp.get('reference', 'old_logp') != 'old_logp':
      return (
        f"hp.signal.{signal}.reference must be 'old_logp' for signal {NAME!r},"
        ' which measures log-ratios to the policy, got'
        f' {hp["reference"]!r}; or leave {NAME!r} out'
      )
    before = scores_first(hp)
    if before != (spec.signal.index(NAME) < i):
      where = 'before' if before else 'after'
      return (
        f'c.signal must name {NAME!r} {where} {signal!r}, which scores a batch'
        f' {where} it learns from it, got {spec.signal}'
      )
  return ''


def scores_first(hp) -> bool:
  """Returns whether a PRM of these settings scores before it learns."""
  return hp.get('order') == 'score_then_update'


@registry.register(
  'signal',
  needs=('role:prm', 'signal:old_logp', 'term:{term}', 'column:state'),
  check=fits,
)
def prm_persistence(context: Context, *, term: Named = 'progress') -> Signal:
  """Measures how long the errors of role 'prm' last, rewarding nothing.

  Stands where the PRM is as it scores: after a PRM that learns before it
  scores, before one that scores first. It holds two copies of parameters and
  reads the batch three times more.

  Args (hyper-parameters):
    term: of the turns, T
  """

  def init():
    key = jax.random.key(0)  # of numbers that are never looked at
    drawn = {r: mesh.init(context.modules[r].specs, key) for r in ROLES}
    return drawn | {'exists': jnp.float32(0)}

  def score(state, batch: Batch, signals):
    weight = counting.counted(batch, 'turn').astype(jnp.float32)
    truth, last = batch.turns.terms[term], state.signal[NAME]

    def logp(role: str, params) -> Array:
      out = context.outputs(role, params[role], batch.rows, 'logp').logp
      assert out is not None
      return out

    def error(phi: Array, policy: Array) -> Array:
      x = implicit_prm.turn_log_ratio(phi, policy, batch)
      return step_quality.error(x, truth, weight)

    def agreement(x: Array, y: Array):
      exists = last['exists']  # 0 in the first iteration
      return exists * step_quality.correlation(x, y, weight), exists

    now = error(logp('prm', state.params), signals['old_logp'])
    before = error(logp('prm', last), logp('policy', last))
    own = (_within_states(x, batch) for x in (now, before))
    return {}, {
      'prm/persistence': agreement(now, before),
      'prm/persistence_within_states': agreement(*own),
    }

  def update(state, batch: Batch, signals, credit):
    now = {r: state.params[r] for r in ROLES} | {'exists': jnp.float32(1)}
    return state.replace(signal={**state.signal, NAME: now}), {}

  return Signal('score_then_update', score, update, init=init)


def _within_states(x: Array, batch: Batch) -> Array:
  """Returns x [B, K] less its mean over the turns of a task in one state."""
  credit = chain.zero(batch).replace(turn=x)
  inputs = LinkInputs(batch=batch, credit=credit, signals={})
  by = ('group', 'state')
  centered, _ = group_stats.on_turns(ops.less_mean, inputs, by=by, unit='turn')
  return centered.turn
