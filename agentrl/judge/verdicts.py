"""Judges that answer with one number or grade, or with a label of each turn."""

import math
from typing import Annotated

from agentrl import registry
from agentrl.domain import COUNT0, Name, Named, OneOf, Real, Text, Tuple
from agentrl.judge import answers
from agentrl.judge.item import Item, JudgeFault, JudgeInputs, transcript

Question = Annotated[str, Text('a question', empty=False)]
Unit = Annotated[str, OneOf('turn', 'trajectory')]
Window = Annotated[int, COUNT0]
NEEDS = ('service:{service}',)
GIVES = 'term:{term}', 'late:{term}'


def conversation(item: Item, window: int = 0) -> str:
  """Writes the item as text for a judge."""
  talk = transcript(item, window=window)
  return '\n'.join(f'[{m.role}] {m.content}' for m in talk)


def numbered_conversation(item: Item) -> str:
  """Writes a trajectory as text for a judge, the agent's messages from 1 on."""
  talk = []
  for k, turn in enumerate(item.turns, 1):
    talk += [f'[user] {turn.observation}', f'{k}. [assistant] {turn.message}']
  return '\n'.join(talk)


def _scored(x: JudgeInputs, question: str, most: float, window: int) -> float:
  """Returns the number that a judge answers with, over `most`."""
  end = f'{question} Answer with a number from 0 to {answers.scale(most)}.'
  return answers.number(x.ask(f'{conversation(x.item, window)}\n\n{end}'), most)


@registry.register('judge', needs=NEEDS, gives=GIVES)
def number(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  unit: Unit = 'turn',
  service: Named = 'judge',
  question: Question = 'How good is the last message of the assistant?',
  most: Annotated[float, Real(0, above=True)] = 1.0,
  window: Window = 0,
) -> float:
  """x / most, x in [0, most] the last number of the answer.

  Args:
    term: what it fills
    unit: what it is asked about
    service: who is asked
    question: put after the conversation
    most: end of the scale, which begins at 0
    window: turns that the judge sees, the last ones; 0: all
  """
  return _scored(x, question, most, window)


@registry.register('judge', needs=NEEDS, gives=GIVES)
def potential(
  x: JudgeInputs,
  *,
  term: Named = 'potential',
  service: Named = 'judge',
  question: Question = 'How much of the task is done by now?',
  most: Annotated[float, Real(0, above=True)] = 1.0,
  window: Window = 0,
) -> float:
  """Returns Φ after the turn, in [0, 1]: read by the reward `potential`.

  A judge of states, not of actions: shaping by it changes no comparison of
  policies, however wrong it is (reward/potential.py).

  Args:
    term, service, question, most, window: as of `number`
  """
  return _scored(x, question, most, window)


@registry.register('judge', needs=NEEDS, gives=GIVES)
def grade(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  unit: Unit = 'turn',
  service: Named = 'judge',
  question: Question = 'Grade the last message of the assistant.',
  grades: Annotated[tuple[str, ...], Tuple(Name(), least=2, once=True)] = (
    'A',
    'B',
    'C',
    'D',
    'E',
  ),
  window: Window = 0,
) -> float:
  """1 − i / (n − 1) for the i-th of n grades, the best one first.

  Args:
    term, unit, service, question, window: as of `number`
    grades: words, the best one first
  """
  end = f'{question} Answer with one of {", ".join(grades)}.'
  text = x.ask(f'{conversation(x.item, window)}\n\n{end}')
  return answers.grade(text, grades)


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='trajectory')
def attribution(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  service: Named = 'judge',
  question: Question = (
    'Which messages of the assistant helped with the task, given how it ended?'
  ),
) -> list[float]:
  """Returns 1 for each turn that the judge calls good, 0 for one it calls bad.

  One question about all turns, in words, as in the self-attributing part of
  AgentEvolver (arXiv 2511.10395). A turn that the answer leaves out has no
  score.

  Args:
    term, service, question: as of `number`
  """
  talk = numbered_conversation(x.item)
  ended = f'The task was scored {x.item.outcome:g}.'
  form = 'Answer with one line each, such as "1: good" or "2: bad".'
  text = x.ask(f'{talk}\n{ended}\n\n{question} {form}')
  labels = answers.lines(text, len(x.item.turns))
  out = []
  for k in range(1, len(x.item.turns) + 1):
    try:
      out.append(float(answers.yes_or_no(labels[k])))
    except (KeyError, JudgeFault):
      out.append(math.nan)
  if all(map(math.isnan, out)):
    raise JudgeFault('the judge labelled none of the turns good or bad')
  return out
