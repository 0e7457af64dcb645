"""A script that answers the questions of `tool_ranking` about countdown.

It stands in for a language model, with two weaknesses that are planted. It does
arithmetic in its head, where SLIP of all expressions end on the wrong side: one
that reaches the target seems to miss it, or the other way round. And it has the
calculator check only what it believes right, until advice names others.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from agentrl.env import tool_env
from agentrl.env.worlds import countdown
from agentrl.judge.tool_ranking import EVIDENCE, TIED
from agentrl.text.message import Message

SLIP = 0.3
_QUOTED = re.compile(r'^(\d+)\. (".*")$', re.MULTILINE)
_FOUND = re.compile(r'^(\d+)\. (.*) = (.*)$', re.MULTILINE)
_TASK = re.compile(r'^Task: (".*")$', re.MULTILINE)
_ADVICE = re.compile(r'^Compute attempts? ([\d, ]+)\.$', re.MULTILINE)
_PAIR = re.compile(r'attempt (\d+) is preferred to attempt (\d+)')


class _View(NamedTuple):
  """What a prompt says, by attempts."""

  expressions: dict[int, str | None]  # None: none that the rules allow
  believed: dict[int, bool]  # by arithmetic in the head
  found: dict[int, bool] | None  # by the calculator; None: there is none
  advised: set[int]  # to be computed

  def right(self, i: int) -> bool:
    """Whether the attempt seems right, by evidence before belief."""
    return (self.found or {}).get(i, self.believed[i])

  def open(self, i: int) -> bool:
    """Whether the calculator could still be asked about the attempt."""
    return (
      self.found is not None
      and i not in self.found
      and self.expressions[i] is not None
    )


def answer(messages: Sequence[Message], *, seed: int) -> str:
  """Answers a question of `tool_ranking` as a service.

  A pair is worth 10 if its winner seems right and its loser wrong, 0 if not,
  and 3 where one of the two has not been computed but could be.

  Raises:
    ValueError: the prompt is no such question.
  """
  del seed  # slips are of expressions
  text = messages[-1].content
  view = _read(text)
  question = text.rpartition('\n')[2]
  if 'compute' in question:
    asked = (i for i in view.believed if view.believed[i] or i in view.advised)
    return '\n'.join(
      f'{i}: {x}' for i in asked if (x := view.expressions[i]) is not None
    )
  if not (pair := _PAIR.search(question)):
    return '\n'.join(f'{i}: {_worth(view, i)}' for i in view.believed)
  win, lose = map(int, pair.groups())
  if unknown := [i for i in (win, lose) if view.open(i)]:
    listed = ', '.join(map(str, sorted({*unknown, *view.advised})))
    return f'3\nCompute attempts {listed}.'
  return '10' if view.right(win) and not view.right(lose) else '0'


def _worth(view: _View, i: int) -> int:
  """Returns the score of an attempt: checked, believed, doubted, refuted."""
  if view.expressions[i] is None:
    return 0
  if view.found is not None and i in view.found:
    return 10 if view.found[i] else 2
  return 8 if view.believed[i] else 3


def _read(text: str) -> _View:
  task = _TASK.search(text)
  if not task:
    raise ValueError(f'a question must have a task, got {text[:80]!r}')
  target, numbers = countdown_task(json.loads(task[1]))
  _, tool, evidence = text.partition(f'\n{EVIDENCE}\n')
  texts = {int(i): json.loads(x) for i, x in _QUOTED.findall(text)}
  expressions = {
    i: allowed(tool_env.final(x), numbers) for i, x in texts.items()
  }
  found = {int(i): x == str(target) for i, _, x in _FOUND.findall(evidence)}
  begin = text.partition('\nTask:')[0]
  listed = [x for line in _ADVICE.findall(begin) for x in line.split(',')]
  return _View(
    expressions,
    {i: x is not None and believes(x, target) for i, x in expressions.items()},
    found if tool else None,
    {*expressions} if TIED in begin else {*map(int, listed)},
  )


def countdown_task(text: str) -> tuple[int, list[int]]:
  """Reads '24: 2 3 4'. Raises ValueError for another text."""
  target, _, numbers = text.partition(':')
  return int(target), [*map(int, numbers.split())]


def allowed(expression: str | None, numbers: Sequence[int]) -> str | None:
  """Returns the expression if its numbers are the task's, else None."""
  if expression is None or not re.fullmatch(r'[-+*/() 0-9]+', expression):
    return None
  used = Counter(map(int, re.findall(r'\d+', expression)))
  return expression if used and not used - Counter(numbers) else None


def believes(expression: str, target: int) -> bool:
  """Returns whether it reaches the target, by arithmetic that may slip."""
  used = [*map(int, re.findall(r'\d+', expression))]
  value = countdown.worth(expression, used, '+-*/')
  digest = hashlib.sha256(f'{expression}={target}'.encode()).digest()
  slips = int.from_bytes(digest[:4], 'big') < SLIP * 2**32
  return (value == Fraction(target)) ^ slips
