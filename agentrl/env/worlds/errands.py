"""Errands: hear what people want, and say what some of them wanted.

  Bob Eve
  ok
  Ann: rope
  ok
  Eve: ink
  ok
  Bob: tea
  ok
  Bob?
  tea
  Eve?
  ink

The task names the people who will be asked about; each wish is heard once, long
before. A conversation without room for all of it needs a memory: what is told
early is asked late, and nothing can be asked again. Wishes of the others are to
be forgotten.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

PEOPLE = ('Ann', 'Bob', 'Cat', 'Dan', 'Eve', 'Fay', 'Gus', 'Hal', 'Ian', 'Joe')
THINGS = ('tea', 'ink', 'rope', 'salt', 'wax', 'lamp', 'nail', 'soap')
ACKNOWLEDGED = 'ok'
RULES = (
  'The first message names people. Say "ok" to it and to every wish; then say'
  ' what each of these people wanted, in a word.'
)


@dataclasses.dataclass(frozen=True)
class Errands:
  """A task is what everyone wants, in the order it is told, and who counts."""

  people: Annotated[int, domain.Whole(1, len(PEOPLE))] = 5  # who want something
  asked: Annotated[int, domain.Whole(1, most='people')] = 2  # people at the end
  things: Annotated[int, domain.Whole(2, len(THINGS))] = 4  # to be wanted
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('asks', 'right')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('errands', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by one who remembers; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def summary(
    self, task: Mapping[str, Any], observations: Sequence[str]
  ) -> str:
    """Notes who will be asked about, and what was heard of them.

    Args:
      observations: all that were seen so far
    """
    known = dict(x.split(': ') for x in observations if ': ' in x)
    names = (PEOPLE[i] for i in task['asked'])
    return ' '.join(f'{x} {known[x]}' if x in known else x for x in names)

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'ErrandsEnv':
    return ErrandsEnv()

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    who = rng.permutation(len(PEOPLE))[: self.people]
    return {
      'who': who.tolist(),
      'wanted': rng.integers(self.things, size=self.people).tolist(),
      'asked': rng.permutation(who)[: self.asked].tolist(),
    }

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    heard = [ACKNOWLEDGED] * (1 + self.people)
    return task, (*heard, *(answer(task, who) for who in task['asked']))


def answer(task: Mapping[str, Any], who: int) -> str:
  """Returns what a person of the task wanted."""
  return THINGS[task['wanted'][task['who'].index(who)]]


class ErrandsEnv:
  """Environment that takes any message but a thing as a wrong answer.

  What is said to a wish does not matter. Each right answer earns 1 / asked, and
  the score is their share. See `HostEnv`.
  """

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._task, self._turn, self._right = task, 0, 0
    return ' '.join(PEOPLE[i] for i in task['asked'])

  def step(self, message: str) -> Step:
    task, told = self._task, len(self._task['who'])
    at = self._turn - 1 - told  # of the question that was answered
    self._turn += 1
    asks, right, invalid = at >= 0, False, False
    if asks:
      words = re.findall(r'[a-z]+', spoken(message).lower())
      right = words == [answer(task, task['asked'][at])]
      invalid = len(words) != 1 or words[0] not in THINGS
    self._right += right
    count = len(task['asked'])
    done = at + 1 == count
    return Step(
      '' if done else self._says(self._turn - 1),
      right / count,
      done,
      self._right / count if done else 0.0,
      invalid=invalid,
      info={'asks': float(asks), 'right': float(right)},
    )

  def _says(self, at: int) -> str:
    """Returns the observation that comes `at` turns after the task's."""
    task, told = self._task, len(self._task['who'])
    if at < told:
      return f'{PEOPLE[task["who"][at]]}: {THINGS[task["wanted"][at]]}'
    return f'{PEOPLE[task["asked"][at - told]]}?'

  def close(self) -> None:
    pass
