"""Questions whose number a tool computes: expressions, and hidden tables.

countdown  17*23-5   the value of an expression
table      sum p     of a column that the agent does not see
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from agentrl.env.worlds import countdown
from agentrl.tool.base import ToolError
from agentrl.tool.calculator import Number, evaluate

_COLUMNS = 'pqrstu'  # of a table, of which each has two
_OF_COLUMN: dict[str, Callable[[list[int]], int]] = {
  'sum': sum,
  'max': max,
  'min': min,
}


class QuestionKind(NamedTuple):
  """A kind of questions."""

  # (rng, size, largest) -> the question, and what it is about
  draw: Callable[[np.random.Generator, int, int], dict[str, Any] | None]
  # what draw gave -> (argument of a tool -> number), which raises ToolError
  evaluate: Callable[[Mapping[str, Any]], Callable[[str], Number]]
  description: str  # of every tool


def easy(question: str, small: int) -> bool:
  """Returns whether no number of an expression is above `small`; 0: never."""
  numbers = map(int, re.findall(r'\d+', question))
  return small > 0 and all(x <= small for x in numbers)


def _draw_expression(
  rng: np.random.Generator, size: int, largest: int
) -> dict[str, Any] | None:
  """Draws a countdown task's shortest expression that takes all numbers."""
  numbers = rng.integers(2, largest + 1, size).tolist()
  texts = countdown.reachable(numbers, '+-*')
  values = sorted(texts)
  if not values:
    return None
  return {'question': texts[values[rng.integers(len(values))]]}


def _draw_table(
  rng: np.random.Generator, size: int, largest: int
) -> dict[str, Any]:
  """Returns two columns and an operation on one."""
  names = sorted(rng.permutation(list(_COLUMNS))[:2].tolist())
  table = {x: rng.integers(1, largest + 1, size).tolist() for x in names}
  operation = rng.choice(list(_OF_COLUMN))
  return {'question': f'{operation} {rng.choice(names)}', 'table': table}


def look_up(table: Mapping[str, list[int]], text: str) -> Number:
  """Returns the value of 'sum p', 'max(p)', 'min of p': words in any order.

  Raises:
    ToolError: it names no operation and column, or several.
  """
  words = re.findall('[a-z]+', text.lower())
  operations = [x for x in words if x in _OF_COLUMN]
  names = [x for x in words if x in table]
  if len(operations) != 1 or len(names) != 1:
    raise ToolError('error', f'no {"/".join(_OF_COLUMN)} of {"/".join(table)}')
  return Fraction(_OF_COLUMN[operations[0]](table[names[0]]))


KINDS = {
  'countdown': QuestionKind(
    _draw_expression,
    lambda task: evaluate,
    'Computes an expression.',
  ),
  'table': QuestionKind(
    _draw_table,
    lambda task: lambda text: look_up(task['table'], text),
    'Computes sum, max or min of a column, such as sum p.',
  ),
}
