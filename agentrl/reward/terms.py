"""Rewards for what happened: the environment's own, its score, and costs.

A reward is a function of one `RewardInputs` and its hyper-parameters that
returns [B, K]; `c.reward` names them, and their sum is the turn's reward.
"""

import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs


@registry.register('reward')
def env(x: RewardInputs) -> Array:
  """Gives the environment's own reward."""
  return x.turns.terms['env']


@registry.register('reward')
def outcome(x: RewardInputs, *, scale: domain.Number = 1.0) -> Array:
  """Gives scale * the task's own score, on the last turn.

  Args:
    scale: what a score of 1 earns
  """
  return trajectory.at_last_turn(scale * x.outcome, x.turns)


@registry.register('reward')
def turn_cost(x: RewardInputs, *, cost: domain.NotNegative = 0.1) -> Array:
  """Gives -cost for every turn.

  Args:
    cost: of a turn
  """
  return jnp.where(x.turns.valid, -cost, 0.0)


@registry.register('reward', needs=('term:invalid',))
def invalid(x: RewardInputs, *, penalty: domain.NotNegative = 0.1) -> Array:
  """Gives -penalty for a message that was not understood.

  Args:
    penalty: for a message
  """
  return -penalty * x.turns.terms['invalid']
