"""Process reward of a path: the gold evidence it covers, for each of its steps.

A step asks, is answered, and may note what it learned:

  <note>*Bako's home is Tebu.*</note><bm25>Tebu mayor</bm25>
  <result>
  Tebu's mayor is Nalo.
  </result>
"""

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from agentrl import registry
from agentrl.domain import Count, Named, OneOf, Tuple
from agentrl.judge import excerpts
from agentrl.judge.item import Item, JudgeInputs
from agentrl.judge.verdicts import GIVES
from agentrl.text import grading
from agentrl.text.tool_calls.base import spoken

PARTS = ('query', 'context', 'summary')
_END = re.compile(r'[.!?]\W*\s|\n')  # of a sentence


class Path(NamedTuple):
  """Sentences of the steps of a trajectory."""

  query: list[str]  # what its messages ask
  context: list[str]  # what they are answered
  summary: list[str]  # what they note
  steps: int  # messages but the one that answers the question; at least 1
  answer: str  # of that message; '': there is none


def read(item: Item, note: str, tag: str) -> Path:
  """Reads the steps of a trajectory.

  A message that was not understood is a step that says nothing. The first
  observation is the task, and no step has retrieved it.

  Args:
    note: tag of notes
    tag: of the answer that ends the trajectory
  """
  noted = re.compile(f'<{note}>.*?</{note}>', re.DOTALL)
  last = [
    noted.sub('', spoken(turn.message))
    for turn in item.turns[-1:]
    if not turn.terms.get('invalid', 0.0)
  ]
  answered = excerpts.last(last, tag)
  steps = len(item.turns) - (answered is not None)
  path = Path([], [], [], max(1, steps), answered or '')
  for k, turn in enumerate(item.turns):
    if turn.terms.get('invalid', 0.0) > 0:
      continue
    said = spoken(turn.message)
    for text in excerpts.between(said, note):
      path.summary.extend(sentences(text))
    if k < steps:
      path.query.extend(sentences(noted.sub('\n', said)))
      path.context.extend(sentences(item._replace(turn=k).answer))
  return path


def sentences(text: str) -> list[str]:
  """Splits a text at the ends of sentences and lines, and at tags."""
  return [x for x in _END.split(excerpts.TAG.sub('\n', text)) if x.strip()]


def match(fact: str, texts: Sequence[str]) -> float:
  """Computes max over texts of ROUGE-L(text, fact), in [0, 1]; 0 of none."""
  return max((grading.rouge_l(x, fact) for x in texts), default=0.0)


@registry.register('judge', gives=GIVES, takes='trajectory')
def evidence_coverage(
  x: JudgeInputs,
  *,
  term: Named = 'evidence_coverage',
  evidence: Named = 'passages',
  field: Named = 'answers',
  tag: Named = 'answer',
  note: Named = 'note',
  parts: Annotated[
    tuple[str, ...], Tuple(OneOf(*PARTS), least=1, once=True)
  ] = PARTS,
  least: Count = 2,
) -> float:
  """R = Σ_e m_e / (|E| n),  m_e = mean over parts of max over n steps of s.

  The process reward of TeaRAG (arXiv 2511.05385): how much of the evidence E
  the steps cover, and how few they are. Each fact e is matched with the query
  of a step, with what it retrieved and with what it noted. s is ROUGE-L, the
  F₁ of the longest common subsequence of words, with the best sentence, where
  the paper asks a reranker. Of a task with less evidence than `least`, R is the
  answer's F₁ / n. The message with the answer is not a step, and n is at least
  1. Messages that were not understood are steps that match nothing.

  Args:
    term: what it fills
    evidence: field of the task that holds E, a sentence each
    field: of the task that holds the gold answers
    tag: of the answer
    note: tag of notes
    parts: of a step that are matched
    least: facts of a path of several hops; with fewer the answer counts
  """
  path = read(x.item, note, tag)
  gold = [str(e) for e in x.item.task.get(evidence) or ()]
  if len(gold) < least:
    answers = excerpts.accepted(x.item, field)
    return float(grading.f1(path.answer, answers)) / path.steps
  covered = [match(e, getattr(path, part)) for e in gold for part in parts]
  return sum(covered) / (len(covered) * path.steps)
