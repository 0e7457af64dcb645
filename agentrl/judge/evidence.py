"""Submitted evidence: a judge that sees only what the agent points to.

An agent ends with a claim and the evidence for it, numbers of its turns or
quotes of what the environment answered:

  The order is placed. <evidence>2 4 "paid $12"</evidence>

A judge of the claim that sees this alone makes the agent look for proof as it
acts, and reads less (SmartSnap: Proactive Evidence Seeking for Self-Verifying
Agents).
"""

import math
import re
from typing import Annotated

from agentrl import registry
from agentrl.domain import COUNT, Named
from agentrl.judge import answers, excerpts, overlap
from agentrl.judge.item import Item, JudgeInputs
from agentrl.judge.verdicts import GIVES, NEEDS, Question
from agentrl.text import grading

_TURN_OR_QUOTE = re.compile(r'"([^"]+)"|(?<!\w)(\d{1,4})(?!\w)', re.ASCII)


def exhibits(item: Item, tag: str) -> list[str]:
  """Evidence that the last message names, each once: turns, then quotes.

  Numbers count messages from 1, and show the message and the answer to it. A
  quote counts where it stands in an answer of the environment.
  """
  text = excerpts.last([x.message for x in item.turns[-1:]], tag) or ''
  names = _TURN_OR_QUOTE.findall(text)
  turns = sorted({int(number) for _, number in names if number})
  observations = excerpts.evidence(item)
  quotes = dict.fromkeys(quote for quote, _ in names if quote)
  return [
    *(_turn(item, k) for k in turns if 1 <= k <= len(item.turns)),
    *(f'[user] {x}' for x in quotes if any(x in o for o in observations)),
  ]


def _turn(item: Item, k: int) -> str:
  """Message k, from 1, and what the environment answered."""
  after = item.turns[k].observation if k < len(item.turns) else ''
  message = f'{k}. [assistant] {item.turns[k - 1].message}'
  return f'{message}\n[user] {after}' if after else message


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='trajectory')
def evidence_only(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  service: Named = 'judge',
  question: Question = 'Does the evidence prove that the task is done?',
  tag: Named = 'evidence',
) -> float:
  """P(done), in [0, 1], for a judge who sees the task and the evidence alone.

  Without evidence it is 0, and nobody is asked. The claim itself is shown only
  if the agent names its last turn.

  Args:
    term: what it fills
    service: who is asked
    question: put after the evidence
    tag: of the evidence in the last message
  """
  parts = exhibits(x.item, tag)
  if not parts:
    return 0.0
  task = x.item.turns[0].observation
  form = f'{question} Answer with a number from 0 to 1.'
  body = '\n'.join(parts)
  return answers.number(x.ask(f'Task: {task}\n\nEvidence:\n{body}\n\n{form}'))


@registry.register('judge', gives=GIVES, takes='trajectory')
def evidence_size(
  x: JudgeInputs, *, term: Named = 'evidence_size', tag: Named = 'evidence'
) -> float:
  """Number of turns and quotes that are submitted as evidence.

  Args:
    term, tag: as of `evidence_only`
  """
  return float(len(exhibits(x.item, tag)))


@registry.register('judge', gives=GIVES, takes='group')
def diversity(
  x: JudgeInputs,
  *,
  term: Named = 'diversity',
  tag: overlap.Tag = 'answer',
  n: Annotated[int, COUNT] = 1,
) -> list[float]:
  """d_i = mean over j ≠ i of 1 − |g_i ∩ g_j| / |g_i ∪ g_j|

  g is the set of word n-grams of an answer; an answer of fewer words is one
  gram. Two that answer nothing are equal. Who is alone has no score.

  Args:
    term: what it fills
    tag: that the last answer stands in; '': it is the whole last message
    n: words of a gram
  """
  grams = [_grams(excerpts.answer(item, tag) or '', n) for item in x.items]
  if len(grams) < 2:
    return [math.nan] * len(grams)
  return [
    sum(_distance(a, b) for j, b in enumerate(grams) if j != i)
    / (len(grams) - 1)
    for i, a in enumerate(grams)
  ]


def _grams(text: str, n: int) -> set[tuple[str, ...]]:
  words = grading.normal(text).split()
  return set(overlap.ngrams(words, min(n, len(words)))) if words else set()


def _distance(a: set, b: set) -> float:
  """1 − |a ∩ b| / |a ∪ b|, 0 where both are empty."""
  return 1 - len(a & b) / len(a | b) if a | b else 0.0
