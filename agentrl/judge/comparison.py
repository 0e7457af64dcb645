"""Judges that compare the trajectories of a group with each other."""

import itertools
import math
import re

from agentrl import registry
from agentrl.domain import Named
from agentrl.judge import answers
from agentrl.judge.item import Ask, JudgeInputs
from agentrl.judge.verdicts import GIVES, NEEDS, Question, Window, conversation
from agentrl.service.base import ServiceFault

# '2 is better', '1 did the task better', '0 for a draw'
_BETTER = re.compile(
  r'\b([12])\b(?:\*\*)? (?:is|was|did|does)(?: clearly)?(?: the task)? better\b'
  r'|\b(0) for a draw\b',
  re.IGNORECASE,
)
_ATTEMPTS = ('agent', 'assistant', 'attempt', 'conversation', 'trajectory')


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='group')
def win_rate(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  service: Named = 'judge',
  question: Question = 'Which of the two did the task better?',
  window: Window = 0,
) -> list[float]:
  """s_i = mean over j ≠ i of P(i beats j),  P = (1[i ≻ j first] + ...) / 2

  Every pair of the group is put in both orders, so that a judge who prefers a
  place gives 1/2 to both. Equal texts draw without being put. A pair that the
  judge does not decide is left out of both means; who has none left has no
  score. Where it decides none of them, its first fault is the group's.

  Args:
    term, service, question: as of `number`
    window: turns of each that the judge sees, the last ones; 0: all
  """
  texts = [conversation(item, window) for item in x.items]
  won: list[list[float]] = [[] for _ in x.items]
  faults: list[ServiceFault] = []
  for i, j in itertools.combinations(range(len(x.items)), 2):
    try:
      share = (
        0.5 if texts[i] == texts[j] else _share(x.ask, question, texts, i, j)
      )
    except ServiceFault as fault:
      faults.append(fault)
      continue
    won[i].append(share)
    won[j].append(1 - share)
  if faults and not any(won):
    raise faults[0]
  return [sum(shares) / len(shares) if shares else math.nan for shares in won]


def _share(ask: Ask, question: str, texts: list[str], i: int, j: int) -> float:
  """Counts how often i beats j, in both orders."""
  before = _first(ask, question, texts[i], texts[j])
  after = _first(ask, question, texts[j], texts[i])
  return (before + 1 - after) / 2


def _first(ask: Ask, question: str, a: str, b: str) -> float:
  """Returns 1 if the first of two is better, 0 if the second, 1/2 at a draw."""
  form = 'Answer with 1, 2, or 0 for a draw.'
  text = ask(f'1.\n{a}\n\n2.\n{b}\n\n{question} {form}')
  options = {'1': 1.0, '2': 0.0, '0': 0.5, 'draw': 0.5}
  return answers.choice(_BETTER.sub(r'\1\2,', text), options, verbs=_ATTEMPTS)
