"""Reward pieces of jittable environments: from what happened to [B, K].

(turns, outcome, status, *, hp) -> reward; `c.reward` names the pieces, their
sum is the turn's reward.
"""

import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.reward import trajectory
from agentrl.types import Array, Turns


@registry.register('reward')
def env(turns: Turns, outcome: Array, status: Array) -> Array:
  """The environment's own reward."""
  return turns.terms['env']


@registry.register('reward')
def outcome(
  turns: Turns, outcome: Array, status: Array, *, scale: domain.Number = 1.0
) -> Array:
  """scale * the task's own score, on the last turn.

  Args:
    scale: what a score of 1 earns
  """
  return trajectory.at_last_turn(scale * outcome, turns)


@registry.register('reward')
def turn_cost(
  turns: Turns, outcome: Array, status: Array, *, cost: domain.NotNegative = 0.1
) -> Array:
  """-cost for every turn.

  Args:
    cost: of a turn
  """
  return jnp.where(turns.valid, -cost, 0.0)


@registry.register('reward', needs=('term:invalid',))
def invalid(
  turns: Turns,
  outcome: Array,
  status: Array,
  *,
  penalty: domain.NotNegative = 0.1,
) -> Array:
  """-penalty for a message that was not understood.

  Args:
    penalty: for a message
  """
  return -penalty * turns.terms['invalid']
