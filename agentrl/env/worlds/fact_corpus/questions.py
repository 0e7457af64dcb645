"""Questions over a corpus of facts, their answers and their gold evidence.

  Bako's home's mayor?              chain: relations to follow, in order
  Bako's home's feast?              unanswerable: no passage has the last fact
  Count: home is Bako's friend's home?      count: of all that this holds for
  Max age: home is Tebu?                    max: over all that this holds for
  Bako's home is _. Its mayor is _.         masked: see masked.py

A question over a set counts as a hop, the last one, and so does every mask.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.env import task_sampling
from agentrl.env.worlds.fact_corpus import masked
from agentrl.env.worlds.fact_corpus.corpus import RELATIONS, Corpus

AGGREGATES = ('count', 'max')
CHAINS = ('chain', 'unanswerable')  # evidence counts in its order alone
UNKNOWN = 'unknown'  # the gold answer of an unanswerable question
_TRIES = 500  # walks through the corpus to make one question


class FactQuestion(NamedTuple):
  """Relations to follow from an entity; of a set, one more that leads back."""

  kind: str  # 'chain', 'unanswerable', 'count', 'max' or 'masked'
  start: str  # an entity
  path: tuple[str, ...]  # relations
  inverse: str = ''  # relation of a set's members to the end of the path


class Solution(NamedTuple):
  answer: str
  evidence: tuple[int, ...]  # passages, in the order in which they lead on


class Mix(NamedTuple):
  """Shares of questions."""

  min_hops: int
  max_hops: int
  unanswerable: float
  aggregated: float
  aggregates: tuple[str, ...]  # kinds of those over sets
  members: int  # least of a set
  masked: float = 0.0


def text(question: FactQuestion) -> str:
  """Returns the question as the agent reads it."""
  if question.kind == masked.KIND:
    return masked.text(question.start, question.path)
  end = ''.join(f"{x}'s " for x in (question.start, *question.path))
  end = end.removesuffix("'s ")
  match question.kind:
    case 'count':
      return f'Count: {question.inverse} is {end}?'
    case 'max':
      return f'Max age: {question.inverse} is {end}?'
    case _:
      return f'{end}?'


def follow(
  corpus: Corpus, start: str, path: Sequence[str]
) -> tuple[list[int], str]:
  """Follows a path: its passages and its end, '' where a fact is missing."""
  at, passages = start, []
  for relation in path:
    passage = corpus.holds.get((at, relation))
    if passage is None:
      return passages, ''
    passages.append(passage)
    at = corpus.facts[passage].object
  return passages, at


def solve(corpus: Corpus, question: FactQuestion) -> Solution:
  """Returns the answer, and the passages that it follows from.

  Those of a chain are each needed, in their order. Those of a set are all of
  its members, and for 'max' also their ages, in any order. Those of an
  unanswerable question lead to the fact that is missing.
  """
  if question.kind == masked.KIND:
    facts, objects = masked.follow(corpus, question.start, question.path)
    return Solution(', '.join(objects), facts)
  passages, end = follow(corpus, question.start, question.path)
  if question.kind not in AGGREGATES:
    return Solution(end or UNKNOWN, tuple(passages))
  answer, of_set = aggregate(corpus, question.kind, question.inverse, end)
  # The path may end in a set that it began in: each passage once.
  return Solution(answer, tuple(dict.fromkeys((*passages, *of_set))))


def aggregate(
  corpus: Corpus, kind: str, relation: str, object: str
) -> tuple[str, tuple[int, ...]]:
  """Counts a set, or finds the highest age in it; also the passages read.

    count = |{x : x's relation is object}|
    max = max {x's age : x's relation is object}, of the ages that are stated

  'none' is the maximum where no age is.
  """
  members = corpus.members.get((relation, object), ())
  if kind == 'count':
    return str(len(members)), members
  subjects = [corpus.facts[i].subject for i in members]
  ages = [corpus.holds.get((x, 'age')) for x in subjects]
  stated = tuple(i for i in ages if i is not None)
  most = max((int(corpus.facts[i].object) for i in stated), default='none')
  return str(most), members + stated


def task(corpus: Corpus, question: FactQuestion) -> dict[str, Any]:
  """Makes a question's task, which JSON can hold: also what judges need."""
  answer, evidence = solve(corpus, question)
  return {
    'question': text(question),
    'answers': [answer],
    'kind': question.kind,
    'hops': len(question.path) + bool(question.inverse),
    'start': question.start,
    'path': list(question.path),
    'inverse': question.inverse,
    'evidence': list(evidence),
    'passages': [corpus.passages[i] for i in evidence],
  }


def steps(corpus: Corpus, task: Mapping[str, Any]) -> list[str]:
  """Returns the subgoals of a chain: a fact to look for each, then to answer.

    Bako's home's mayor?  ->  'Bako home', 'Tebu mayor', 'answer'

  A step names what the ones before it have shown.
  """
  found = [corpus.facts[i].object for i in task['evidence']]
  subjects = [task['start'], *found]  # of an unanswerable one, all but the last
  facts = zip(subjects, task['path'], strict=False)
  return [*(f'{x} {relation}' for x, relation in facts), 'answer']


def of_task(task: Mapping[str, Any]) -> FactQuestion:
  """Returns the question of a task."""
  return FactQuestion(
    task['kind'], task['start'], tuple(task['path']), task['inverse']
  )


def salted(question: FactQuestion, split: str) -> list:
  """Returns the question and a number, which bring its key into a split."""
  return next(
    content
    for salt in itertools.count()
    if task_sampling.split(content := [*question, salt]) == split
  )


def draw(
  corpus: Corpus, mix: Mix, split: str, rng: np.random.Generator
) -> FactQuestion | None:
  """Draws a random question that begins at an entity of the split.

  Kind and hops are drawn first; None where no walk fits them.
  """
  kind = _kind(mix, rng)
  hops = int(rng.integers(mix.min_hops, mix.max_hops + 1))
  starts = [x for x, entity in corpus.entities.items() if entity.split == split]
  for _ in range(_TRIES):
    start = starts[rng.integers(len(starts))]
    question = _walk(corpus, kind, start, hops, rng)
    if question and _fits(corpus, question, mix):
      return question
  return None


def _kind(mix: Mix, rng: np.random.Generator) -> str:
  point = rng.random()
  if point < mix.unanswerable:
    return 'unanswerable'
  if point < mix.unanswerable + mix.aggregated:
    return str(rng.choice(mix.aggregates))
  if point < mix.unanswerable + mix.aggregated + mix.masked:
    return masked.KIND
  return 'chain'


def _walk(
  corpus: Corpus, kind: str, start: str, hops: int, rng: np.random.Generator
) -> FactQuestion | None:
  if kind == masked.KIND:
    masks = masked.walk(corpus, start, hops, rng)
    return FactQuestion(kind, start, masks) if masks else None
  at, path = corpus.entities[start].kind, []
  steps = hops - (kind in AGGREGATES)
  for left in reversed(range(steps)):
    # A number leads nowhere: it only ends a chain.
    last = not left and kind not in AGGREGATES
    fit = [x for x, end in RELATIONS[at].items() if last or end != 'number']
    path.append(str(rng.choice(fit)))
    at = RELATIONS[at][path[-1]]
  if kind not in AGGREGATES:
    return FactQuestion(kind, start, tuple(path))
  inverses = [
    relation
    for subject, relations in RELATIONS.items()
    for relation, end in relations.items()
    if end == at and (kind == 'count' or 'age' in RELATIONS[subject])
  ]
  if not inverses:
    return None
  return FactQuestion(kind, start, tuple(path), str(rng.choice(inverses)))


def _fits(corpus: Corpus, question: FactQuestion, mix: Mix) -> bool:
  """Returns whether it has its answer, and no shorter way there."""
  if question.kind == masked.KIND:
    return True
  passages, end = follow(corpus, question.start, question.path)
  facts = [corpus.facts[i] for i in passages]
  if len({question.start, *(x.object for x in facts)}) <= len(facts):
    return False  # it comes back to where it was
  if question.kind == 'unanswerable':
    return not end and len(passages) == len(question.path) - 1
  if not end or _survives(corpus, question, end):
    return False
  if question.kind == 'chain':
    return True
  answer, _ = aggregate(corpus, question.kind, question.inverse, end)
  members = corpus.members.get((question.inverse, end), ())
  return len(members) >= mix.members and answer != 'none'


def _survives(corpus: Corpus, question: FactQuestion, end: str) -> bool:
  """Tells whether without one passage an older one leads to the same end."""
  passages, _ = follow(corpus, question.start, question.path)
  facts = [corpus.facts[i] for i in passages]
  older = [corpus.older.get((x.subject, x.relation)) for x in facts]
  return any(
    old is not None and follow(corpus, old, question.path[i:])[1] == end
    for i, old in enumerate(older, 1)
  )
