"""Critiques: name the wrong lines of a solution.

  3=3
  8=2
  6=6
  2

Each line copies a digit; lines are wrong by chance, by another digit. A
critique is the numbers of the lines it holds to be wrong, or "none".

What a critique is worth is known in two ways, as in MultiCritique (arXiv
2410.15287):

  demonstration  scripted critics overlook what is wrong (`miss`) and object to
                 what is right (`alarm`); the lines that more than half of
                 them name are the critique that is shown
  reward         the share of lines that are right once the solution has been
                 revised by it, the mean over `revisers`; 1 if nothing is left

A reviser works on the lines that are named and on no other: it writes what is
right with probability `skill`, and else what is wrong.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.grading import f1_of_counts
from agentrl.text.tool_calls.base import spoken

NONE = 'none'
RULES = (
  'Each line copies a digit. Answer with the numbers of the wrong lines, such'
  ' as "1 3", or with "none".'
)
Line = Sequence[int]  # a digit, and what is written as its copy


@dataclasses.dataclass(frozen=True)
class Critiques:
  """A task is the lines of a solution, some of them wrong."""

  lines: Annotated[int, domain.Whole(2, 9)] = 3
  wrong: domain.Chance = 0.4  # that a line is
  critics: Annotated[int, domain.Whole(1, 99)] = 1  # behind a demonstration
  miss: domain.Chance = 0.3  # that a critic overlooks a wrong line
  alarm: domain.Chance = 0.2  # that a critic objects to a right line
  revisers: Annotated[int, domain.Whole(1, 99)] = 1  # behind a reward
  skill: domain.Chance = 0.8  # that a reviser writes what is right
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('found', 'named', 'f1')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('critiques', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields solutions with what their critics agree on; see `EnvFamily`.

    More critics read the same solutions, and the first of them say the same.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def env(self) -> 'CritiquesEnv':
    return CritiquesEnv(self.revisers, self.skill)

  def _draw(self, rng: np.random.Generator) -> list[list[int]]:
    solution = []
    for _ in range(self.lines):
      digit = int(rng.integers(10))
      off = int(rng.integers(1, 10)) if rng.random() < self.wrong else 0
      solution.append([digit, (digit + off) % 10])
    return solution

  def _solve(
    self, solution: list[list[int]]
  ) -> tuple[dict[str, Any], tuple[str, ...]]:
    digest = hashlib.sha256(repr(solution).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], 'big'))
    said = [
      criticized(solution, rng, miss=self.miss, alarm=self.alarm)
      for _ in range(self.critics)
    ]
    return {'solution': solution}, (written(agreed(said)),)


def is_right(line: Line) -> bool:
  digit, copy = line
  return digit == copy


def faults(solution: Sequence[Line]) -> set[int]:
  """Returns the numbers of the wrong lines, from 1."""
  return {i for i, x in enumerate(solution, 1) if not is_right(x)}


def criticized(
  solution: Sequence[Line],
  rng: np.random.Generator,
  *,
  miss: float,
  alarm: float,
) -> set[int]:
  """Draws what a critic names: wrong lines it does not miss, and right ones."""
  chances = [alarm if is_right(x) else 1 - miss for x in solution]
  named = np.flatnonzero(rng.random(len(solution)) < chances) + 1
  return set(named.tolist())


def agreed(said: Sequence[Collection[int]]) -> set[int]:
  """Returns the lines that more than half of the critics name."""
  every = set[int]().union(*said)
  return {i for i in every if 2 * sum(i in x for x in said) > len(said)}


def written(named: Collection[int]) -> str:
  """Writes a critique."""
  return ' '.join(map(str, sorted(named))) or NONE


def understood(text: str, lines: int) -> set[int] | None:
  """Parses a critique of so many lines; None if the text is not one."""
  words = text.lower().split()
  if words == [NONE]:
    return set()
  numbers = {str(i): i for i in range(1, lines + 1)}
  if not words or len(set(words)) < len(words) or set(words) - numbers.keys():
    return None
  return {numbers[x] for x in words}


def revised(
  solution: Sequence[Line],
  named: Collection[int],
  rng: np.random.Generator,
  *,
  skill: float,
) -> float:
  """Returns the share of lines that are right after a reviser's work."""
  skilled = rng.random(len(solution)) < skill  # drawn for lines not named, too
  right = [
    skilled[i - 1] if i in named else is_right(x)
    for i, x in enumerate(solution, 1)
  ]
  return float(np.mean(right))


def f1(named: Collection[int], wrong: Collection[int]) -> float:
  """Returns the F₁ of the lines named; 1 where none is, and none is wrong."""
  return f1_of_counts(len(named), len(set(named) & set(wrong)), len(wrong))


class CritiquesEnv:
  """Environment of one turn that scores a critique by what it is good for.

  The score is 1 if the lines named are the wrong ones. See `HostEnv`.
  """

  def __init__(self, revisers: int, skill: float):
    self._revisers, self._skill = revisers, skill

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._solution, self._rng = task['solution'], np.random.default_rng(seed)
    return '\n'.join(f'{a}={b}' for a, b in self._solution)

  def step(self, message: str) -> Step:
    solution, wrong = self._solution, faults(self._solution)
    named = understood(spoken(message), len(solution))
    if named is None:
      nothing = dict.fromkeys(Critiques.columns, 0.0)
      return Step('', 0.0, True, 0.0, invalid=True, info=nothing)
    worth = [
      revised(solution, named, self._rng, skill=self._skill)
      for _ in range(self._revisers)
    ]
    info = {
      'found': float(len(named & wrong)),
      'named': float(len(named)),
      'f1': f1(named, wrong),
    }
    score = float(named == wrong)
    return Step('', float(np.mean(worth)), True, score, info=info)

  def close(self) -> None:
    pass
