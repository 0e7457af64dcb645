"""Families whose tasks are skills: basic ones, and what is made of them.

A skill is the basic skills that a task takes, in order. Its name is theirs,
with a space between: `a b` is first a, then b. It is known before a task is
played, so that a curriculum can choose tasks by it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from agentrl.env.base import EnvFamily

SKILLS = 'env:skills'  # what such a family gives to components
LONGEST = 80  # characters of a name
_BASIC = re.compile(r'\S+')


@runtime_checkable
class NamesSkills(EnvFamily, Protocol):
  """Family that says which skill each of its tasks takes."""

  def skill(self, task: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the basic skills that a task takes, in order, a word each."""


class SkillTable(NamedTuple):
  """The S skills of n tasks, sorted by their number of basic skills."""

  parts: tuple[tuple[str, ...], ...]  # basic skills of each
  of_task: np.ndarray  # [n] i32  in [0, S)

  @property
  def names(self) -> tuple[str, ...]:
    """Returns the name of every skill."""
    return tuple(map(' '.join, self.parts))

  @property
  def longest(self) -> int:
    """Returns the most basic skills that one consists of."""
    return len(self.parts[-1])

  def basic(self) -> np.ndarray:
    """Marks skills of the fewest parts, which all others begin from: [S]."""
    size = np.array([len(x) for x in self.parts])
    return size == np.min(size, initial=len(size))


NO_SKILLS = SkillTable((), np.zeros(0, np.int32))


def table(
  family: NamesSkills, tasks: Sequence[Mapping[str, Any]]
) -> SkillTable:
  """Lists the skills of some tasks.

  Raises:
    ValueError: the family names one that no line of text can hold.
  """
  each = [tuple(family.skill(task)) for task in tasks]
  for x in each:
    words = all(isinstance(y, str) and _BASIC.fullmatch(y) for y in x)
    if not x or not words or len(' '.join(x)) > LONGEST:
      raise ValueError(
        f'{type(family).__name__}.skill must return a tuple of one or more'
        f' words, of {LONGEST} characters together at most, got {x!r:.120}'
      )
  parts = sorted({*each}, key=lambda x: (len(x), x))
  index = {x: i for i, x in enumerate(parts)}
  of_task = np.array([index[x] for x in each], np.int32)
  return SkillTable(tuple(parts), of_task)
