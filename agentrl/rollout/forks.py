"""Forks: trajectories that go on from one place any number of times.

A place is where a trajectory stands before a message: what the policy has read,
and the state of its environment. Playing a turn at a place leaves it as it was
and makes another, so places are the nodes of a tree. Implemented inside jit by
copies of states and caches (jit_forks.py), for hosts by environments that fork
or replay (host_forks.py).
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agentrl.rollout.record import Record

# Of what was played: messages asked for, tokens sampled, tokens read, tokens
# of the past whose keys and values a fork had already, turns of environments,
# and turns that environments repeated because they cannot fork.
COUNTS = ('calls', 'tokens', 'read', 'reused', 'env_steps', 'replayed')


class Ask(NamedTuple):
  """A message that the policy is asked for.

  What it draws depends on the task and on the number of the call, not on what
  else is asked.
  """

  place: int
  task: int  # of the place
  call: int


class Played(NamedTuple):
  """A turn that was played, and where it leads."""

  place: int
  message: tuple[int, ...]  # its tokens
  logp: float  # of the message, nats
  reward: float  # the environment's
  ended: bool
  score: float  # the task's own
  state: bytes  # equal: what follows one message is the same
  value: float | None = None  # of the state by the environment; None: unknown
  # What the message says, equal for those that act alike; None: malformed.
  parsed: str | None = ''


class Forks(Protocol):
  """Places of one environment and one policy."""

  @property
  def counts(self) -> collections.Counter[str]:
    """What was played since the last `begin`, see COUNTS."""

  def begin(self, tasks: Sequence[int]) -> list[int]:
    """Forgets all places; returns those where the tasks begin.

    Args:
      tasks: indices of different tasks
    """

  def play(self, asks: Sequence[Ask]) -> list[Played]:
    """Plays a turn for each of the asks."""

  def record(self, places: Sequence[int]) -> Record:
    """Returns the trajectories that lead to places, host arrays."""


def refused(what: str, why: str) -> ValueError:
  """Returns the error for what cannot be searched."""
  return ValueError(
    f'a search must be in a world that forks, got {what}: {why}'
  )
