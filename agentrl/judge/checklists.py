"""Judges that answer several questions about an item: lists and rubrics."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from agentrl import registry
from agentrl.domain import NOT_NEGATIVE, Domain, Named, Text, Tuple, Whole
from agentrl.judge import answers
from agentrl.judge.item import Item, JudgeFault, JudgeInputs, transcript
from agentrl.judge.verdicts import (
  GIVES,
  NEEDS,
  Unit,
  Window,
  conversation,
  numbered_conversation,
)

Questions = Annotated[tuple[str, ...], Tuple(Text(empty=False))]
NONE = -1  # in `after`: depends on nothing
_INDEX = Whole(NONE)
# '0.5 to 0.7', '1 out of 2', '0.5 - 1': more than the first word counts.
_RANGE = re.compile(
  r'\S+ (?:points? )?(?:[-–—/%]|(?:and|of|or|out of|per|to)\b)'
)
_PLACES = ('at', 'message', 'turn')  # in words: 'in message 3'
_STRAIGHT = str.maketrans('“”„', '"""')


@dataclasses.dataclass(frozen=True)
class PerQuestion(Tuple):
  """Empty, or one value per question."""

  like: str = 'questions'

  def explain(self) -> str:
    return f'(), or {super().explain()}'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    empty = isinstance(value, tuple | list) and not value
    return '' if empty else super().mistake(value, beside)


@dataclasses.dataclass(frozen=True)
class QuestionWeights(PerQuestion):
  """Weights of questions, at least one of them positive."""

  of: Domain = NOT_NEGATIVE

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if mistake := super().mistake(value, beside):
      return mistake
    return 'must add up to more than 0' if value and not sum(value) else ''


@dataclasses.dataclass(frozen=True)
class Earlier(PerQuestion):
  """Index of an earlier question for each question, or -1."""

  of: Domain = _INDEX

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if mistake := super().mistake(value, beside):
      return mistake
    late = [i for i, x in enumerate(value) if x >= i]
    return (
      f'must hold an earlier question for each, or {NONE}; question {late[0]},'
      f' counted from 0, has {value[late[0]]}'
      if late
      else ''
    )


Weights = Annotated[tuple[float, ...], QuestionWeights()]
After = Annotated[tuple[int, ...], Earlier()]


class Criterion(NamedTuple):
  """Item of a list."""

  question: str
  weight: float = 1.0
  after: int = NONE  # the item without which it is not met

  @classmethod
  def read(cls, value: Any) -> 'Criterion':
    """Reads a criterion: a string, or a mapping of these fields.

    Raises:
      TypeError, ValueError: it is neither, or a field is invalid.
    """
    made = cls(value) if isinstance(value, str) else cls(**value)
    Text(empty=False).check('question', made.question)
    NOT_NEGATIVE.check('weight', made.weight)
    _INDEX.check('after', made.after)
    return made


def criteria(
  item: Item,
  field: str,
  questions: tuple[str, ...],
  weights: tuple[float, ...],
  after: tuple[int, ...],
) -> list[Criterion]:
  """Returns the list of the config or, if that is empty, of the task.

  Raises:
    JudgeFault: both are empty, or the task's is invalid.
  """
  if questions:
    n = len(questions)
    weights, after = weights or (1.0,) * n, after or (NONE,) * n
    columns = zip(questions, weights, after, strict=True)
    return [Criterion(*x) for x in columns]
  try:
    given = item.task[field]
    if isinstance(given, str):
      raise TypeError('it must be a list, got a string')
    made = [Criterion.read(x) for x in given]
  except (KeyError, TypeError, ValueError, OverflowError) as error:
    raise JudgeFault(
      f'the task must have a valid {field}: {error!r:.80}'
    ) from error
  if not made or any(x.after >= i for i, x in enumerate(made)):
    raise JudgeFault(f'the {field} of the task is empty or out of order')
  return made


def weighed(met: list[float], items: list[Criterion]) -> float:
  """Computes S = Σ w_k m_k / Σ w_k, m_k = 0 if its prerequisite has m = 0."""
  counted: list[float] = []
  for x, item in zip(met, items, strict=True):
    holds = item.after == NONE or counted[item.after] > 0
    counted.append(x if holds else 0.0)
  total = math.fsum(x.weight for x in items)
  if total <= 0:
    raise JudgeFault('the weights of the list add up to 0')
  values = zip(counted, items, strict=True)
  return math.fsum(x * item.weight for x, item in values) / total


def _listed(items: list[Criterion]) -> str:
  return '\n'.join(f'{i}. {x.question}' for i, x in enumerate(items, 1))


@registry.register('judge', needs=NEEDS, gives=GIVES)
def checklist(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  unit: Unit = 'turn',
  service: Named = 'judge',
  questions: Questions = (),
  weights: Weights = (),
  after: After = (),
  field: Named = 'checklist',
  window: Window = 0,
) -> float:
  """Scores S = Σ w_k m_k / Σ w_k,  m_k = yes_k m_{after(k)}

  Yes/no items with weights and dependencies, as in CM2 (arXiv 2602.12268). One
  prompt asks about all of them, with a numbered line for each. An answer that
  misses one is invalid.

  Args:
    term, unit, service, window: as of `number`
    questions: of the items; (): the task's
    weights: w of each; (): 1
    after: index of an earlier item that must be met too, or -1; (): all -1
    field: of the task that holds them: strings, or mappings with question,
      weight and after
  """
  items = criteria(x.item, field, questions, weights, after)
  form = 'Answer with one line each, such as "1: yes" or "2: no".'
  text = x.ask(f'{conversation(x.item, window)}\n\n{_listed(items)}\n{form}')
  given = answers.numbered(text, len(items))
  return weighed([float(answers.yes_or_no(label)) for label in given], items)


@registry.register('judge', needs=NEEDS, gives=GIVES)
def rubric(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  unit: Unit = 'trajectory',
  service: Named = 'judge',
  questions: Questions = (),
  weights: Weights = (),
  field: Named = 'rubric',
  window: Window = 0,
) -> float:
  """Scores S = Σ w_k p_k / Σ w_k,  p_k in [0, 1] with a quote as evidence

  Graded criteria (SWE-TRACE's rubrics). Points need a quote; an answer with a
  quote that is not in the conversation is invalid.

  Args:
    term, unit, service, window: as of `number`
    questions: of the criteria; (): the task's
    weights: w of each; (): 1
    field: of the task that holds them
  """
  items = criteria(x.item, field, questions, weights, ())
  form = (
    'Answer with one line each: points from 0 to 1 and, above 0, a quote from'
    " the conversation as evidence, such as '1: 0.5 \"quote\"' or '2: 0'."
  )
  text = x.ask(f'{conversation(x.item, window)}\n\n{_listed(items)}\n{form}')
  talk = [_plain(m.content) for m in transcript(x.item, window=window)]
  points = []
  for i, given in enumerate(answers.numbered(text, len(items)), 1):
    value, quote = _quoted(given)
    if value > 0 and not (quote and any(quote in message for message in talk)):
      raise JudgeFault(
        'quotes must be in the conversation, got'
        f' {quote[:80]!r} for criterion {i}'
      )
    points.append(value)
  return weighed(points, items)


def _plain(text: str) -> str:
  """Normalizes quotation marks and white space for comparison."""
  return ' '.join(text.translate(_STRAIGHT).split())


def _quoted(text: str) -> tuple[float, str]:
  """Parses points, the first word or 'x out of 1', and the quote after."""
  points, _, rest = _plain(text).partition('"')
  points = points.rstrip(' -–—:,')
  quote, mark, end = rest.rpartition('"')
  if not _RANGE.match(points):
    points = ''.join(points.split()[:1])
  return answers.number(points), (quote if mark else end).strip()


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='trajectory')
def milestones(
  x: JudgeInputs,
  *,
  term: Named = 'progress',
  service: Named = 'judge',
  questions: Questions = (),
  field: Named = 'milestones',
) -> list[float]:
  """Scores x_k = |milestones first reached in turn k| / M

  The sum over the first turns is the share reached by then; each milestone pays
  once (MiRA, arXiv 2603.19685, whose verifier is a model).

  Args:
    term, service: as of `number`
    questions: the milestones; (): the task's
    field: of the task that holds them
  """
  items = criteria(x.item, field, questions, (), ())
  form = (
    'In which assistant message is each first reached? Answer with one line'
    ' each, such as "1: 3" or "2: never".'
  )
  text = x.ask(f'{numbered_conversation(x.item)}\n\n{_listed(items)}\n{form}')
  out = [0.0] * len(x.item.turns)
  turns: dict[str, int | None] = {str(k + 1): k for k in range(len(out))}
  for given in answers.numbered(text, len(items)):
    k = answers.choice(given, turns | {'never': None}, verbs=_PLACES)
    if k is not None:
      out[k] += 1 / len(items)
  return out
