"""Moving averages of parameters: a role that follows another, and learns not.

A teacher that is the policy's own past, smoothed: its parameters are no
gradient's, and lie on a mesh as the policy's do.
"""

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import Chance, Count, Named
from agentrl.signal.base import Context, Signal


def polyak(target, source, tau: float):
  """target + tau (source - target): exact where they agree."""
  return jax.tree.map(lambda x, y: x + tau * (y - x), target, source)


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if the role that follows the policy is there to be moved."""
  ((_, hp),) = registry.settings_of(spec, 'signal', 'moving_average')
  role = config.role[hp['role']]
  if role.kind == 'ema' and not role.heads:
    return ''
  at = f'role.{hp["role"]}'
  return (
    f"{at}.kind must be 'ema' and {at}.heads 0 for signal 'moving_average',"
    f' got {role.kind!r} and {role.heads}'
  )


@registry.register('signal', needs=('role:policy', 'role:{role}'), check=fits)
def moving_average(
  context: Context,
  *,
  role: Named = 'teacher',
  decay: Chance = 0.99,
  every: Count = 1,
) -> Signal:
  """theta_role <- decay theta_role + (1 - decay) theta_policy.

  After the policy's sub-updates, with what they made of it: what an iteration
  reads of the role, it reads before the role moves. Under adapters it is an
  average of a and of b, not of their product.

  Args (hyper-parameters):
    role: a language model of kind 'ema'
    decay: per move; half of the role is from the last ln 2 / (1 - decay) of
      them, 69 at 0.99. At 0 it is the policy of that moment
    every: iterations between moves; the first is after so many of the run
  """
  del context

  def score(state, batch, signals):
    return {}, {}

  def update(state, batch, signals, credit):
    here, policy = state.params[role], state.params['policy']
    source = {name: policy[name] for name in here}  # without value heads
    rate = jnp.where((state.step + 1) % every == 0, 1 - decay, 0.0)
    moved = polyak(here, source, rate)
    return state.replace(params={**state.params, role: moved}), {}

  return Signal('after_advantage', score, update)
