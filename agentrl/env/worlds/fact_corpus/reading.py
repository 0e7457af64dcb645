"""Columns of a trajectory: what it has read, against the gold evidence.

Potential of what is read, n gold passages of E, of a chain only the first n
without a gap:

  Φ = n / (E + 1)

A right answer takes it to 1, a wrong one to 0, and progress is its change in a
turn: over an ended trajectory progress adds up to the score.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.env.tool_env import Grade
from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.corpus import Corpus
from agentrl.env.worlds.fact_corpus.retrievers import (
  AGGREGATE,
  DESCRIPTIONS,
  NOTHING,
  aggregated,
)
from agentrl.text import grading
from agentrl.tool.base import Answer

COLUMNS = (
  'f1',  # of the answer's words, the best over the accepted answers
  'evidence',  # share of the gold passages that were first read in this turn
  'relevant',  # gold passages that the task has
  'retrieved',  # passages first read in this turn, false ones too
  'lies',  # false passages first read in this turn
  'useful',  # calls with a gold passage not read before
  'repeated',  # calls with nothing that was not read before
  'progress',  # change of the potential
  'hops',  # that the task has
  'answered_unknown',  # 1: the answer is that no passage says
  *(f'calls_{name}' for name in DESCRIPTIONS),  # that each tool has answered
)


class Reading:
  """What one trajectory has read so far."""

  def __init__(self, corpus: Corpus, task: Mapping[str, Any]):
    """Begins with nothing read; task: as the family made it."""
    self._corpus, self._task = corpus, task
    self._gold = task['evidence']
    self._seen: set[int | str] = set()

  @property
  def question(self) -> str:
    """Returns the question of the task."""
    return self._task['question']

  def copy(self) -> 'Reading':
    """Returns another that has read the same."""
    other = Reading(self._corpus, self._task)
    other._seen = set(self._seen)
    return other

  def observe(self, answers: Sequence[Answer]) -> dict[str, float]:
    """Reads the answers to the calls of a turn: -> its columns.

    Calls that went wrong have shown nothing, nor have tools without passages:
    they count nowhere.
    """
    before, already = self._potential(), self._share()
    counts = dict.fromkeys(COLUMNS, 0)
    for answer in answers:
      if answer.fault or answer.name not in DESCRIPTIONS:
        continue
      counts[f'calls_{answer.name}'] += 1
      fresh = self._passages(answer) - self._seen
      self._seen |= fresh
      # A text that no passage has: of an aggregate a result, else a lie.
      texts = {x for x in fresh if isinstance(x, str)}
      lies = 0 if answer.name == AGGREGATE else len(texts)
      counts['retrieved'] += len(fresh - texts) + lies
      counts['lies'] += lies
      counts['useful'] += not fresh.isdisjoint(self._gold)
      counts['repeated'] += not fresh
    return {
      **counts,
      'evidence': self._share() - already,
      'relevant': len(self._gold),
      'progress': self._potential() - before,
      'hops': self._task['hops'],
    }

  def judge(self, answer: str) -> Grade:
    """Judges exact match and F₁ as in SQuAD, and what the answer ends."""
    accepted = self._task['answers']
    right = float(grading.exact(answer, accepted))
    unknown = grading.exact(answer, [questions.UNKNOWN])
    info = {
      'f1': grading.f1(answer, accepted),
      'progress': right - self._potential(),
      'answered_unknown': float(unknown),
    }
    return Grade(right, info)

  def _passages(self, answer: Answer) -> set[int | str]:
    """Finds passages that an answer rests on, by place; texts that are none."""
    if answer.name == AGGREGATE:
      query = answer.text.rpartition(':')[0]
      return {answer.text, *aggregated(self._corpus, query)[1]}
    lines = answer.text.splitlines()
    return {self._corpus.ids.get(x, x) for x in lines if x != NOTHING}

  def _share(self) -> float:
    return len(self._seen.intersection(self._gold)) / max(len(self._gold), 1)

  def subgoal(self) -> str:
    """Names the next open step of a chain: what to look for, then to answer."""
    return questions.steps(self._corpus, self._task)[self._reached()]

  def _reached(self) -> int:
    """Counts gold passages that were read, of a chain up to the first gap."""
    read = [i in self._seen for i in self._gold]
    chain = self._task['kind'] in questions.CHAINS
    return [*read, False].index(False) if chain else sum(read)

  def _potential(self) -> float:
    return self._reached() / (len(self._gold) + 1)
