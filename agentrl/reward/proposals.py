"""Rewards of those who write tasks, and of those who solve them.

Terms are those of `env.proposals.COLUMNS`; every reward is of a trajectory.
"""

from typing import Annotated

import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.reward import trajectory
from agentrl.types import Agent, Array, RewardInputs

SHAPES = ('frontier', 'adversary')
LABELS = ('verified', 'majority')
RATES = ('solved', 'agreement')
Rate = Annotated[str, domain.OneOf(*RATES)]


def difficulty(p: Array, shape: str) -> Array:
  """Rates a task of which a share p of the attempts are right, [...] in [0, 1].

    frontier: 1 − 2 |p − 1/2|    adversary: 1 − p

  Raises:
    ValueError: unknown shape.
  """
  domain.OneOf(*SHAPES).check('shape', shape)
  return 1 - p if shape == 'adversary' else 1 - 2 * jnp.abs(p - 0.5)


@registry.register(
  'reward',
  needs=(
    *('column:agent', 'term:{of}', 'term:is_task', 'term:alike'),
    'term:solver_calls',
  ),
)
def proposing(
  x: RewardInputs,
  *,
  shape: Annotated[str, domain.OneOf(*SHAPES, 'none')] = 'frontier',
  of: Rate = 'solved',
  scale: domain.Number = 1.0,
  repetition: domain.NotNegative = 0.0,
  calls: domain.NotNegative = 0.0,
  most_calls: domain.NotNegative = 4.0,
  invalid: domain.Number = 0.0,
) -> Array:
  """Rewards a proposer by what its solvers came to; others get 0:

    R = scale f(p) + calls min(c, most_calls) − repetition s    of a task
    R = invalid − repetition s                                  of none

  c is the mean number of calls of a solver, s the share of the batch's
  proposals in the cluster of this one.

  Args:
    shape: f, see `difficulty`; 'none': R = 0, and proposers learn nothing
    of: p: 'solved', the solvers' mean score, or 'agreement', the share of them
      that gave the most common answer
    scale: of f
    repetition: penalty of a batch of equal proposals
    calls: what a call is worth
    most_calls: that are counted
    invalid: reward of what is no task
  """
  if shape == 'none':
    return jnp.zeros_like(x.outcome)
  p, task, alike, made = (
    trajectory.total(name, x)
    for name in (of, 'is_task', 'alike', 'solver_calls')
  )
  good = scale * difficulty(p, shape) + calls * jnp.minimum(made, most_calls)
  reward = jnp.where(task > 0, good, invalid) - repetition * alike
  return jnp.where(x.turns.agent[:, 0] == Agent.PROPOSER, reward, 0)


@registry.register('reward', needs=('column:agent', 'term:agrees'))
def solving(
  x: RewardInputs,
  *,
  label: Annotated[str, domain.OneOf(*LABELS)] = 'verified',
  scale: domain.Number = 1.0,
) -> Array:
  """Rewards a solver for the right answer; others get 0.

  Args:
    label: 'verified': the task's own score; 'majority': 1 for the answer that
      most solvers gave, which nobody has verified
    scale: of it
  """
  own = trajectory.total('agrees', x) if label == 'majority' else x.outcome
  return jnp.where(x.turns.agent[:, 0] == Agent.SOLVER, scale * own, 0)
