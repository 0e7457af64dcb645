"""Families whose tasks are written by one attempt and solved by others.

  training task ─ seed ─► proposer ─ messages ─► proposed ─► solvers

A proposer is begun by a seed, which says what to write, and what it has written
is a task only if the family can verify it. The same environment plays both
roles: a task that holds `SEED` is one to propose from.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentrl.env import tool_env
from agentrl.env.base import EnvFamily, HostEnv, HostTask, Step

PROPOSES = 'env:proposals'  # what such a family gives to components
SEED = 'seed'  # of a task that a proposer begins with
FAULTS = ('format', 'leak', 'search', 'unanswerable', 'held_out', 'raised')
HELD_OUT = 'held_out'  # the task is good, and one of the test split
MOST = 400  # characters of a proposal at most
LONGEST = 20_000  # characters of a message that is read for one

# Terms of both roles, on a trajectory's last turn; rollout/units.py fills them.
COLUMNS = (
  'is_task',  # 1: what the proposer of the unit wrote is a task
  'solved',  # mean score of its solvers
  'agreement',  # share of its solvers that gave the most common answer
  'agrees',  # 1: this solver gave that answer
  'alike',  # share of the batch's proposals that are like this one
  'solver_calls',  # calls of a solver, their mean
)


class Proposal(NamedTuple):
  """What a proposer has written: a task, or why it is none."""

  text: str
  task: Mapping[str, Any] | None = None
  fault: str = ''  # one of `FAULTS`


@runtime_checkable
class ProposesTasks(EnvFamily, Protocol):
  """Family whose tasks a policy can write."""

  def seed(self, task: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a proposer begins with, made from a training task."""

  def proposed(
    self,
    seed: Mapping[str, Any],
    messages: Sequence[str],
    observations: Sequence[str],
  ) -> Proposal:
    """Verifies what a proposer has written.

    Args:
      messages: that it wrote, in order; whatever they hold
      observations: that it read before each of them
    """

  def answer(self, task: Mapping[str, Any], message: str) -> str:
    """Returns the answer in a message, equal for equal ones; '': none."""


@runtime_checkable
class PosesGoals(EnvFamily, Protocol):
  """Family whose environments may ask for a goal when an attempt begins."""

  @property
  def own_goals(self) -> bool:
    """Whether attempts at one task have goals of their own."""


class RoleEnv:
  """Plays seeds in one environment, and tasks in another; see `HostEnv`."""

  def __init__(self, proposer: HostEnv, solver: HostEnv):
    self._proposer, self._solver = proposer, solver
    self._now = solver

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._now = self._proposer if SEED in task else self._solver
    return self._now.reset(task, seed)

  def step(self, message: str) -> Step:
    return self._now.step(message)

  def close(self) -> None:
    self._proposer.close()
    self._solver.close()


class Heard:
  """An environment that remembers what a proposer has read and written."""

  def __init__(self, env: HostEnv):
    self._env = env
    self.messages: list[str] = []
    self.observations: list[str] = []

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    text = self._env.reset(task, seed)
    self.messages, self.observations = [], [text]
    return text

  def step(self, message: str) -> Step:
    self.messages.append(message)
    step = self._env.step(message)
    self.observations.append(step.text)
    return step

  def close(self) -> None:
    self._env.close()


def with_seeds(
  made: Iterable[HostTask], split: str, seeded: Callable[[HostTask], HostTask]
) -> Iterator[HostTask]:
  """Yields tasks; to train on, every second is one to propose from."""
  for i, task in enumerate(made):
    yield seeded(task) if split == 'train' and i % 2 else task


def written(messages: Sequence[str]) -> str:
  """Returns the answer that ends what a proposer wrote; '': none is short."""
  last = messages[-1] if messages else ''
  text = tool_env.final(last) if len(last) <= LONGEST else None
  return text if text and len(text) <= MOST else ''


def leaks(answer: str, question: str) -> bool:
  """Tests whether the words of an answer stand in a question, in order."""
  words = [re.findall(r'\w+', x.casefold()) for x in (answer, question)]
  part, whole = words
  ends = range(len(part), len(whole) + 1)
  return bool(part) and any(whole[i - len(part) : i] == part for i in ends)
