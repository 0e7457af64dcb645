"""Horizons that grow: fewer turns at first."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

from agentrl import registry
from agentrl.domain import Count, Real, Tuple
from agentrl.task import fixed
from agentrl.types import AttemptPlan, Attempts

Shares = Annotated[tuple[float, ...], Tuple(Real(0, 1, above=True), least=1)]


@registry.register('task')
def growing_horizon(
  plan: AttemptPlan,
  memory: Mapping[str, Any],
  step: int,
  *,
  shares: Shares = (1 / 3, 2 / 3, 1.0),
  every: Count = 100,
) -> Attempts:
  """Draws tasks as `fixed`, with at most h(step) turns:

    h(s) = ⌈share_i · limit⌉,  i = min(⌊s / every⌋, len(shares) − 1)

  ScalingInter-RL (AgentGym-RL, arXiv 2509.08755). What is cut off by h has
  failed, as at any limit; evaluations have the whole limit. Arrays are of the
  whole limit too, so that nothing is compiled anew.

  Args:
    shares: of rollout.max_turns, one for each period
    every: steps of a period; the last one has no end
  """
  period = min(step // every, len(shares) - 1)
  # A share of a third of 9 is 3, whatever rounding makes of it.
  turns = max(1, math.ceil(round(shares[period] * plan.limit, 9)))
  return fixed.fixed(plan._replace(limit=turns), memory, step)
