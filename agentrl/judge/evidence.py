"""Submitted evidence: a judge that sees only what the agent points to.

An agent ends with a claim and the evidence for it, numbers of its turns or
quotes of what the environment answered:

  The order is placed. <evidence>2 4 "paid $12"</evidence>

A judge of the claim that sees this alone makes the agent look for proof as it
acts, and reads less (SmartSnap: Proactive Evidence Seeking for Self-Verifying
Agents). `evidence_only` asks for a number; `submission` is the paper's verdict.
"""

import math
import re
from typing import Annotated, NamedTuple

from agentrl import registry
from agentrl.domain import COUNT, COUNT0, Named, OneOf
from agentrl.judge import answers, excerpts, overlap
from agentrl.judge.item import Item, JudgeFault, JudgeInputs
from agentrl.judge.verdicts import GIVES, NEEDS, Question
from agentrl.service.base import ServiceFault
from agentrl.text import grading

_TURN_OR_QUOTE = re.compile(r'"([^"]+)"|(?<!\w)(\d{1,4})(?!\w)', re.ASCII)


def exhibits(item: Item, tag: str) -> list[str]:
  """Lists evidence that the last message names, each once: turns, then quotes.

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
  """Returns message k, from 1, and what the environment answered."""
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
  """Scores P(done), in [0, 1], by a judge who sees task and evidence alone.

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
  """Counts turns and quotes that are submitted as evidence.

  Args:
    term, tag: as of `evidence_only`
  """
  return float(len(exhibits(x.item, tag)))


class Submission(NamedTuple):
  """Claim of a last message, and the turns that are to prove it."""

  claim: str
  turns: tuple[int, ...]  # numbers from 1, each once


def submitted(item: Item, tag: str, claim: str) -> Submission | None:
  """Returns the one submission of a trajectory; None for a malformed one.

  It is well formed if one message, the last one, has the tag, and beside it a
  claim; if it names turns by their numbers and nothing else; and if all of
  these have an answer, so that none is the last.
  """
  tags = [x for t in item.turns for x in excerpts.between(t.message, tag)]
  last = item.turns[-1].message
  said = excerpts.between(last, claim)
  if len(tags) != 1 or tags != excerpts.between(last, tag) or not said:
    return None
  numbers = tags[0].replace(',', ' ').split()
  if not numbers or not all(re.fullmatch('[0-9]{1,4}', x) for x in numbers):
    return None
  turns = tuple(dict.fromkeys(map(int, numbers)))
  inside = all(1 <= k < len(item.turns) for k in turns)
  return Submission(' '.join(said[-1].split()), turns) if inside else None


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='trajectory')
def submission(
  x: JudgeInputs,
  *,
  term: Named = 'judged',
  service: Named = 'judge',
  tag: Named = 'evidence',
  claim: Named = 'answer',
  votes: Annotated[int, COUNT] = 1,
  shown: Annotated[str, OneOf('evidence', 'all')] = 'evidence',
) -> float:
  """Returns 1 if most verifiers say done, else 1/2 if most say valid, else 0.

  SmartSnap's verdict, (1 + R) / 2. A verifier sees the task, the claim and what
  the environment answered in the turns that were submitted, nothing else, and
  says whether that is valid evidence and whether it proves the task done;
  invalid evidence proves nothing. Ties are not most. A malformed submission is
  worth 0, and nobody is asked. Verifiers that fail do not vote; where all do,
  there is no score.

  Args:
    term: what it fills
    service: who is asked
    tag: of the numbers of turns in the last message
    claim: tag of the claim in it
    votes: verifiers
    shown: 'evidence', or 'all' turns, to compare with
  """
  made = submitted(x.item, tag, claim)
  if made is None:
    return 0.0
  every = range(1, len(x.item.turns))
  turns = made.turns if shown == 'evidence' else every
  body = '\n'.join(f'Turn {k}: {x.item.turns[k].observation}' for k in turns)
  task = x.item.turns[0].observation
  prompt = f'Task: {task}\n\nClaim: {made.claim}\n\nEvidence:\n{body}{_VERIFY}'
  verdicts = []
  for i in range(votes):
    ask = f'{prompt} Verifier {i + 1} of {votes}.' if votes > 1 else prompt
    try:
      lines = answers.numbered(x.ask(ask), 2)
      verdicts.append([answers.yes_or_no(line) for line in lines])
    except ServiceFault as error:
      fault = error
  if not verdicts:
    raise JudgeFault(f'no verifier answered ({fault})')
  done = sum(valid and proven for valid, proven in verdicts)
  valid = sum(valid for valid, _ in verdicts)
  if 2 * done > len(verdicts):
    return 1.0
  return 0.5 if 2 * valid > len(verdicts) else 0.0


_VERIFY = (
  '\n\n1. Is the evidence valid?\n2. Does it prove that the claim does the'
  ' task?\nAnswer with one line each, such as "1: yes" or "2: no".'
)


@registry.register('judge', gives=GIVES, takes='trajectory')
def evidence_excess(
  x: JudgeInputs,
  *,
  term: Named = 'evidence_excess',
  tag: Named = 'evidence',
  claim: Named = 'answer',
  free: Annotated[int, COUNT0] = 3,
) -> float:
  """max(0, n - free) for n turns submitted; 0 for a malformed submission.

  Args:
    term, tag, claim: as of `submission`
    free: turns that cost nothing
  """
  made = submitted(x.item, tag, claim)
  return float(max(0, len(made.turns) - free)) if made else 0.0


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
  """Returns 1 − |a ∩ b| / |a ∪ b|, 0 where both are empty."""
  return 1 - len(a & b) / len(a | b) if a | b else 0.0
