"""Judges without a model: columns of the world, and functions of the user."""

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
  """1[x > above], x the world's own term of the turn: a judge that is right.

  With a planted error it is wrong as often as one likes, which is how the
  methods that learn from judges are compared (docs/JUDGES.md).

  Args:
    term: what it fills
    name: of the world's term
    above: which values are good
  """
  value = x.item.here.terms[name]
  if math.isnan(value):
    raise JudgeFault(f'the term {name!r} of the turn is NaN')
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
  """The score that a function of the user's gives: (item) -> float.

  For unit 'trajectory' it may also return a list: a score of each turn, NaN for
  none. What it raises costs the item its score.

  Args:
    term: what it fills
    unit: what it is called with
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
  """Text that is equal for equal values only; mappings have no order."""
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
  """Numbers and arrays of NumPy and JAX as Python's, for JSON."""
  array = np.asarray(x)
  if array.dtype.kind in 'OSUc':  # of digits, a text would be a number
    raise TypeError(f'a {type(x).__name__} is no score')
  return array.astype(np.float64).tolist()


def by_outcome(item: Item) -> float:
  """The task's own score, whichever turn is asked about."""
  return item.outcome
