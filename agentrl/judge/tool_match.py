"""Partial credit for tool calls against gold calls."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from agentrl import registry
from agentrl.domain import Named, OneOf, Positive
from agentrl.judge import excerpts
from agentrl.judge.item import Item, JudgeFault, JudgeInputs
from agentrl.judge.verdicts import GIVES, Unit
from agentrl.runtime import text_files
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Call, Malformed

JSON_LINES = 'json_lines'  # in the one <tool_call>, as in ToolRL
# Formats that are read without the tools.
FORMATS = (JSON_LINES, 'hermes', 'llama_json', 'llama_pythonic')
Compare = Callable[[Sequence[str], Sequence[str]], float]


def jaccard(a: Sequence[str], b: Sequence[str]) -> float:
  """Computes |a ∩ b| / |a ∪ b| of multisets; 1 if both are empty."""
  common = (Counter(a) & Counter(b)).total()
  whole = len(a) + len(b) - common
  return common / whole if whole else 1.0


def identical(a: Sequence[str], b: Sequence[str]) -> float:
  """Returns 1 if the lists are equal, order included, else 0."""
  return float(list(a) == list(b))


def _parts(compare: Compare) -> Callable[[Call, Call], float]:
  """Makes the score of two calls of a tool: parameter names and values."""

  def score(gold: Call, call: Call) -> float:
    values = (
      x in call.args and call.args[x] == gold.args[x] for x in gold.args
    )
    return compare(list(gold.args), list(call.args)) + sum(values)

  return score


class Grain(NamedTuple):
  """Granularity of comparing calls."""

  names: Compare  # lists of tools
  call: Callable[[Call, Call], float]  # two calls of one tool
  most: Callable[[Call], float]  # of a gold call


GRAINS = {
  'fine': Grain(jaccard, _parts(jaccard), lambda x: 1 + len(x.args)),
  'refined': Grain(identical, _parts(identical), lambda x: 1 + len(x.args)),
  'intermediate': Grain(jaccard, lambda a, b: float(a == b), lambda x: 1),
  'coarse': Grain(lambda a, b: 0.0, lambda a, b: 0.0, lambda x: 1),
}


def correctness(
  gold: Sequence[Call], calls: Sequence[Call], grain: Grain
) -> float:
  """Computes s / max in [0, 1]; 1 if the lists are equal.

    s = J(tools) + Σ_g best_c [J(parameters) + |equal values|]
    max = 1 + Σ_g (1 + |parameters of g|)

  Each gold call g, in order, is matched to the best remaining call c of the
  same tool, the first among equals.
  """
  if list(gold) == list(calls):
    return 1.0
  score = grain.names([x.name for x in gold], [x.name for x in calls])
  left = list(calls)
  for wanted in gold:
    same = [i for i, call in enumerate(left) if call.name == wanted.name]
    if not same:
      continue
    best = max(same, key=lambda i: grain.call(wanted, left[i]))
    points = grain.call(wanted, left[best])
    score += points
    if points > 0:
      del left[best]
  return score / (1 + sum(map(grain.most, gold)))


@registry.register('judge', gives=GIVES)
def tool_match(
  x: JudgeInputs,
  *,
  term: Named = 'tool_match',
  unit: Unit = 'trajectory',
  field: Named = 'calls',
  format: Annotated[str, OneOf(*FORMATS)] = JSON_LINES,
  grain: Annotated[str, OneOf(*GRAINS)] = 'fine',
  most: Positive = 3.0,
) -> float:
  """Scores R = most (2 s / max − 1) in [−most, most]: R_correct of ToolRL

  s and max are defined in `correctness` (arXiv 2504.13958), with the task's
  gold calls. R is −most if no call is made or one is unreadable, and 0 if the
  gold answer has no calls. Values compare as in Python: 1 equals 1.0 but not
  '1'. `most` = 1 is the paper's ablation of the scale; for a scale that changes
  over the run, schedule the coefficient of a stream.

  Args:
    term: to fill
    unit: 'turn', a message against the gold calls of its turn (a list of
      lists), or 'trajectory', all messages against all gold calls
    field: of the task that holds the gold calls, mappings with name and
      arguments or parameters
    format: of the calls in messages
    grain: 'fine'; 'refined': lists of names must be equal; 'intermediate':
      each call is equal or not; 'coarse': all calls are equal or not
    most: reward for calls equal to the gold ones
  """
  gold = gold_calls(x.item, field)
  if not gold:
    return 0.0
  try:
    calls = [
      y for text in excerpts.messages(x.item) for y in read(text, format)
    ]
  except ValueError:
    return -most
  if not calls:
    return -most
  return most * (2 * correctness(gold, calls, GRAINS[grain]) - 1)


def gold_calls(item: Item, field: str) -> list[Call]:
  """Reads the task's gold calls, of the turn if they are listed by turn.

  Raises:
    JudgeFault: they are missing or invalid.
  """
  try:
    values = list(item.task[field])
    if all(isinstance(x, list | tuple) for x in values):
      turns = values if item.turn < 0 else values[item.turn : item.turn + 1]
      values = [x for turn in turns for x in turn]
    return [_call(x) for x in values]
  except (KeyError, TypeError, ValueError) as error:
    raise JudgeFault(f'the task must have valid {field}') from error


def read(text: str, format: str) -> list[Call]:
  """Parses the calls of a message, in order.

  Raises:
    ValueError: an attempted call is malformed.
  """
  if format == JSON_LINES:
    blocks = excerpts.between(text, 'tool_call')
    lines = blocks[0].split('\n') if blocks else []
    return [_call(text_files.parse(x)) for x in lines]
  calls = format_of(format).parse(text, ())
  for call in calls:
    if isinstance(call, Malformed):
      raise ValueError(call.sentence)
  return [x for x in calls if isinstance(x, Call)]


def _call(value: Any) -> Call:
  """Converts a mapping to a call; ValueError if it is malformed."""
  args = None
  if isinstance(value, dict):
    args = value.get('parameters', value.get('arguments'))
  if not (isinstance(args, dict) and isinstance(value.get('name'), str)):
    raise ValueError(f'a call must have name and arguments, got {value!r:.80}')
  return Call(value['name'], args)
