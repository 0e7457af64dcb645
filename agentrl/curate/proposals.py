"""Which proposed tasks are learned to be solved."""

from typing import Annotated

from agentrl import domain, registry
from agentrl.curate import select
from agentrl.reward import trajectory
from agentrl.reward.proposals import Rate
from agentrl.types import Agent, Batch


@registry.register('curate', needs=('column:agent', 'term:{of}'))
def within_frontier(
  batch: Batch,
  *,
  low: Annotated[float, domain.Real(0, 1, most='high')] = 0.3,
  high: domain.Rate = 0.8,
  of: Rate = 'agreement',
) -> Batch:
  """Drops solvers of tasks unless low <= p <= high (Agent0, 2511.16043).

  Proposers stay: they learn from what was too easy or too hard.

  Args:
    low, high: bounds of p
    of: p: 'agreement' or 'solved', see the reward `proposing`
  """
  turns = batch.turns
  p = trajectory.sum_term(of, turns)
  near = 1e-6  # shares of n are not exact
  fits = (p >= low - near) & (p <= high + near)
  return select.keep(batch, fits | (turns.agent[:, 0] != Agent.SOLVER))
