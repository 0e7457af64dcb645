"""Scripted verifier: does what is shown prove the answer to a question?

It reads what the judge `submission` asks, and nothing else: the question, the
claimed answer, and turns. Passages beat each other by their years.

  Bako's home's mayor?  Nalo.  Bako's home is Tebu. Tebu's mayor is Nalo.

proves the claim; the first passage alone is valid evidence and proves nothing,
and a passage that the question does not lead to is no evidence.
"""

import itertools
import random
import re
from collections.abc import Iterable, Sequence

from agentrl.service.base import ServiceFault
from agentrl.text import grading
from agentrl.text.message import Message

_ASKED = re.compile(
  r'Task: (?P<question>.*?)\?\n\nClaim: (?P<claim>[^\n]*)\n\nEvidence:\n'
  r'(?P<turns>.*)\n\n1\. ',
  re.DOTALL,
)
FACT = re.compile(r"(?:(\d+): )?(\w+)'s (\w+) is (\w+)\.")
_TURN = re.compile(r'^Turn \d+: ', re.MULTILINE)
_MISLED = 0.2  # chance that a turn beside the question turns a verdict round


def path(question: str, texts: Iterable[str]) -> list[str]:
  """Returns what a question leads to, from its start, in these texts alone."""
  known: dict[tuple[str, str], str] = {}
  every = [x for text in texts for x in FACT.findall(text)]
  for _, subject, relation, value in sorted(
    every, key=lambda x: int(x[0] or 0)
  ):
    known[subject, relation] = value
  at, *relations = question.split("'s ")
  out = [at]
  for relation in relations:
    if (out[-1], relation) not in known:
      break
    out.append(known[out[-1], relation])
  return out


def verify(messages: Sequence[Message], *, seed: int) -> str:
  """Answers truly."""
  del seed  # nothing is random
  valid, done, _ = _verdict(messages)
  return _write(valid, done)


def distracted(messages: Sequence[Message], *, seed: int) -> str:
  """Answers truly, but for turns that have nothing to do with the question.

  Each of them turns the verdict round with a chance of 1/5: who is shown less
  is surer.
  """
  valid, done, beside = _verdict(messages)
  rng = random.Random(seed)
  for _ in range(beside):
    if rng.random() < _MISLED:
      done = not done
  return _write(valid or done, done)


def _verdict(messages: Sequence[Message]) -> tuple[bool, bool, int]:
  """Tells if evidence is valid, if it proves the claim, and turns beside it."""
  asked = _ASKED.search(messages[-1].content)
  if not asked:
    raise ServiceFault('the verifier was not asked about a submission')
  question = asked['question']
  turns = [x for x in _TURN.split(asked['turns']) if x.strip()]
  led = path(question, turns)
  steps = {*itertools.pairwise(led)}
  beside = sum(
    not any((s, o) in steps for _, s, _, o in FACT.findall(turn))
    for turn in turns
  )
  ended = len(led) == len(question.split("'s "))
  right = ended and grading.exact(asked['claim'], [led[-1]])
  return len(led) > 1, bool(right), beside


def _write(valid: bool, done: bool) -> str:
  return '\n'.join(
    f'{k}: {"yes" if x else "no"}' for k, x in enumerate((valid, done), 1)
  )
