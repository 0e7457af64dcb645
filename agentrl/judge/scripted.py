"""Judges without a model: environment columns and user functions."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from agentrl import registry
from agentrl.domain import Named, Number, Text
from agentrl.judge.item import Item, JudgeFault, JudgeInputs, Score
from agentrl.judge.verdicts import GIVES, Unit
from agentrl.service.base import load_function


@registry.register('judge', needs=('term:{name}',), gives=GIVES)
def column(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  name: Named = 'progress',
  above: Number = 0.0,
) -> float:
  """Scores 1[x > above], x the environment's term of the turn: always right.

  A planted error makes it wrong at a known rate, to compare methods that learn
  from judges (docs/JUDGES.md).

  Args:
    term: to fill
    name: of the environment's term
    above: threshold of good values
  """
  value = x.item.here.terms[name]
  if math.isnan(value):
    raise JudgeFault(f'the term {name!r} of the turn must be a number, got NaN')
  return float(value > above)


@registry.register('judge', gives=GIVES)
def function(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  unit: Unit = 'turn',
  path: Annotated[
    str, Text("'module:name'", empty=False)
  ] = 'agentrl.judge.scripted:by_outcome',
) -> Score:
  """Scores with a function of the user: (item) -> float.

  For unit 'trajectory' it may also return a list with a score per turn, NaN if
  unscored. An exception leaves the item unscored.

  Args:
    term: to fill
    unit: that it is called with
    path: 'module:name', as Python imports it
  """
  call = load_function(path, '(item) -> float')

  def compute() -> str:
    try:
      return json.dumps(call(x.item), default=_listed)
    except JudgeFault:
      raise
    except Exception as error:
      raise JudgeFault(
        f'{path} raised {type(error).__name__}: {error}'
      ) from error

  return json.loads(x.ask.cached(_content([path, *x.item]), compute))


def _content(x: Any) -> str:
  """Serializes a value canonically; the order of mappings is ignored."""
  match x:
    case Mapping():
      pairs = sorted((_content(k), _content(v)) for k, v in x.items())
      return f'{{{", ".join(": ".join(pair) for pair in pairs)}}}'
    case list() | tuple():
      return f'[{", ".join(map(_content, x))}]'
    case np.ndarray() | np.generic():
      return _content(x.tolist())
  return repr(x)


def _listed(x: Any) -> Any:
  """Converts numbers and arrays of NumPy and JAX for JSON."""
  array = np.asarray(x)
  if array.dtype.kind in 'OSUc':  # of digits, a text would be a number
    raise TypeError(f'a score must be a number, got {type(x).__name__}')
  return array.astype(np.float64).tolist()


def by_outcome(item: Item) -> float:
  """Returns the task's own score, for any turn."""
  return item.outcome
