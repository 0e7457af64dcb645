"""Families whose trajectories fulfil goals other than their own.

A trajectory that missed its own goal has still brought something about, and an
instruction that asks for just that is fulfilled by it (hindsight). A family
writes such instructions from what the trajectory has read, so that neither its
rewards nor the state of its environment are asked.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from agentrl.env.base import EnvFamily

STATED = 'env:goals'  # what such a family gives to components


@runtime_checkable
class StatesGoals(EnvFamily, Protocol):
  """Family whose first observation states a goal, and might state another.

  Observations are all that a trajectory has read, in order; the first states
  its goal. Texts around them, such as a chat template's, are to be ignored.
  """

  def goal(self, observations: Sequence[str], rng: np.random.Generator) -> str:
    """Writes a goal that a trajectory reached by what it did; '': none.

    Args:
      observations: of a trajectory that its agent has ended
      rng: draws one of several such goals
    """

  def fulfils(self, observations: Sequence[str], goal: str) -> bool:
    """Returns whether a trajectory that ends here has reached a goal."""

  def restated(self, observation: str, goal: str) -> str:
    """Returns a first observation with this goal in place of its own."""
