"""States as facts: goals that hold, of `object attribute value` in text.

StateFactory (Reward Prediction with Factorized World States) compares a state
with the goal after both were factored into objects, attributes and values. The
factoriser here is a grammar: a clause of three words, articles left out, is a
fact, as `lamp state on` is, and `The key is taken.`
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from agentrl import registry
from agentrl.domain import Named
from agentrl.judge import excerpts
from agentrl.judge.item import Item, JudgeFault, JudgeInputs
from agentrl.judge.verdicts import GIVES
from agentrl.text import grading

State = dict[tuple[str, str], str]  # (object, attribute) -> value
_CLAUSE = re.compile(r'[\n;,]|\.(?!\d)')


def facts(text: str) -> State:
  """Reads the facts of a text; of two about one attribute the later holds."""
  clauses = (grading.normal(x).split() for x in _CLAUSE.split(text))
  return {(x[0], x[1]): x[2] for x in clauses if len(x) == 3}


def state(observations: Iterable[str]) -> State:
  """Returns the facts after these observations: the last seen of each."""
  out: State = {}
  for text in observations:
    out |= facts(text)
  return out


def goal_text(item: Item, field: str) -> str:
  """Returns the goal of the task, a text or lists of three words, as a text.

  Raises:
    JudgeFault: there is none, or no clause of it is a fact.
  """
  value: Any = item.task.get(field)
  try:
    text = value if isinstance(value, str) else '\n'.join(map(' '.join, value))
  except TypeError as error:
    raise JudgeFault(f'the {field} {value!r:.80} cannot be read') from error
  if not facts(text):
    raise JudgeFault(f'the {field} {value!r:.80} has no fact of three words')
  return text


@registry.register('judge', gives=GIVES)
def goal_similarity(
  x: JudgeInputs, *, term: Named = 'potential', field: Named = 'goal'
) -> float:
  """mean over goal objects of |attributes that are as wanted| / |wanted|

  Objects are matched by their names first, then attributes within them, so that
  an object with many does not outweigh the others (the paper's hierarchy). An
  attribute is as it was seen last. It is a potential: `potential` and
  `potential_of_changes` of c.reward make rewards of its changes.

  Args:
    term: what it fills
    field: of the task that holds the goal facts, a text or lists of words
  """
  goal = facts(goal_text(x.item, field))
  now = state(_observations(x.item))
  shares = [
    [now.get(k) == value for k, value in goal.items() if k[0] == name]
    for name in {name for name, _ in goal}
  ]
  return math.fsum(sum(x) / len(x) for x in shares) / len(shares)


@registry.register('judge', gives=GIVES)
def text_similarity(
  x: JudgeInputs, *, term: Named = 'potential', field: Named = 'goal'
) -> float:
  """Returns F₁ of the goal's and the last observation's words, not factored.

  What `goal_similarity` is compared with.

  Args:
    term, field: as of `goal_similarity`
  """
  seen = _observations(x.item)[-1:]
  return float(grading.f1(' '.join(seen), [goal_text(x.item, field)]))


def _observations(item: Item) -> list[str]:
  """Returns all that was seen up to the answer to the turn."""
  first = [item.turns[0].observation] if item.turns else []
  return first + excerpts.evidence(item)
