"""Potential-based shaping: rewards of turns that leave the best policy best.

Φ is a number of each state. What shaping adds to a trajectory of K turns,
discounted, telescopes to γ^K Φ_K − Φ_0, and with Φ_K = 0 to −Φ_0, whatever
the policy does in between: it moves credit to earlier turns and changes no
comparison of policies (Ng, Harada, Russell: Policy Invariance Under Reward
Transformations, ICML 1999). So it does nothing for links on whole returns such
as `episode_return` where γ = 1; it is for links on turns. A trajectory that was
cut short ends like the others: nothing here bootstraps from where it stopped.
"""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Chance, Discount, Named, Number
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs, Turns


def shaping(
  after: Array, turns: Turns, *, gamma: float, start: float, final: float
) -> Array:
  """γ Φ_{k+1} − Φ_k on every turn that happened: [B, K].

  Args:
    after: [B, K], Φ after each turn
    start: Φ_0
    final: what Φ after the last turn is multiplied by
  """
  has = turns.valid.astype(jnp.float32)
  first = segment.previous_turn(has, turns.valid) == 0
  before = segment.previous_turn(after, turns.valid)
  before = jnp.where(first, start, before)
  after = jnp.where(trajectory.last_turn(turns), final * after, after)
  return jnp.where(turns.valid, gamma * after - before, 0)


@registry.register('reward', needs=('term:{term}',))
def potential(
  x: RewardInputs,
  *,
  term: Named = 'own',
  gamma: Discount = 1.0,
  start: Number = 0.0,
  final: Chance = 0.0,
) -> Array:
  """F_k = γ Φ_{k+1} − Φ_k, the term of turn k is Φ_{k+1}

  That is Φ after the turn, such as `own`, the score so far of an environment
  under a judge. `progress` is a difference: see `potential_of_changes`.

  Args:
    term: Φ after each turn
    gamma: γ, that of the links that sum rewards
    start: Φ_0, before the first turn
    final: what Φ at the end is multiplied by; above 0 the end itself pays, and
      another policy may become the best
  """
  after = x.turns.terms[term]
  return shaping(after, x.turns, gamma=gamma, start=start, final=final)


@registry.register('reward', needs=('term:{term}',))
def potential_of_changes(
  x: RewardInputs,
  *,
  term: Named = 'progress',
  gamma: Discount = 1.0,
  final: Chance = 0.0,
) -> Array:
  """F_k = γ Φ_{k+1} − Φ_k,  Φ_{k+1} = Σ_{j ≤ k} x_j,  Φ_0 = 0

  For a term that is a change of some value, as `progress` of the jittable
  environments is V(after) − V(before): summed, it is V less V of the first
  state, which is the same for all attempts at a task.

  Args:
    term: the change of each turn, x
    gamma: γ, that of the links that sum rewards
    final: what Φ at the end is multiplied by; above 0 the end itself pays, and
      another policy may become the best
  """
  changes = jnp.where(x.turns.valid, x.turns.terms[term], 0)
  after = jnp.cumsum(changes, axis=1)
  return shaping(after, x.turns, gamma=gamma, start=0.0, final=final)
