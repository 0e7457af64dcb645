"""Rewards for which tools were used."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import Chance, Count, Name, Named, NotNegative, Tuple
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs


@registry.register('reward', needs=('term:*tools',))
def multi_tool_bonus(
  x: RewardInputs,
  *,
  tools: Annotated[
    tuple[str, ...], Tuple(Name('a term'), least=1, once=True)
  ] = ('search', 'python'),
  kinds: Count = 2,
  bonus: NotNegative = 0.1,
  due_from: Chance = 1.0,
) -> Array:
  """R = bonus · 1[outcome ≥ τ] · 1[|{f: x_f > 0}| ≥ kinds]

  On the last turn; x_f is how often a tool was called in the trajectory. The
  multi-tool reward of Tool-Star (arXiv 2505.16410): to use several tools pays
  only where it led to a solution.

  Args:
    tools: names of terms that count the calls of each tool
    kinds: different tools that have to be used
    bonus: what it pays
    due_from: τ, the lowest outcome that is a solution
  """
  used = sum(
    (trajectory.total(name, x) > 0).astype(jnp.int32) for name in tools
  )  # [B]
  due = trajectory.reaches(x.outcome, due_from) & (used >= kinds)
  return trajectory.at_last_turn(jnp.where(due, bonus, 0.0), x.turns)


@registry.register('reward', needs=('term:{calls}',))
def call_bonus(
  x: RewardInputs,
  *,
  calls: Named = 'calls',
  start: NotNegative = 0.0,
  each: NotNegative = 0.05,
  most: NotNegative = 0.1,
  due_from: Chance = 1.0,
) -> Array:
  """R = 1[outcome ≥ τ] min(R_max, α + β N)

  On the last turn; N is how many calls the trajectory made. The tool reward of
  AgentMath (arXiv 2512.20745): calls pay only where they led to a solution, and
  the cap keeps calls that are good for nothing from paying ever more.

  Args:
    calls: the term that counts them
    start: α, what a solution earns without any
    each: β, what a call adds
    most: R_max
    due_from: τ, the lowest outcome that is a solution
  """
  bonus = jnp.minimum(most, start + each * trajectory.total(calls, x))
  due = trajectory.reaches(x.outcome, due_from)
  return trajectory.at_last_turn(jnp.where(due, bonus, 0.0), x.turns)
