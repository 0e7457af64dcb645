"""Case corpus: diagnose a patient by cases like it, and by what is known.

  fever cough rash
  <match>fever cough rash</match>
  <result>
  late Tebu: fever rash itch
  acute Nalo: cough fever
  </result>
  <search>late Tebu</search>
  <result>
  late Tebu: fever cough rash itch
  </result>
  <answer>late Tebu</answer>

Cases and patients are draws from one table of diseases (`diagnosis`), so that
the case that is most like a patient may have another disease. A match begins a
round of reference; columns hold the scores of Deep-DxSearch (arXiv 2508.15746).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.env.worlds import diagnosis
from agentrl.env.worlds.consultation import SYMPTOMS
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Call, ToolDescription
from agentrl.tool.base import Answer
from agentrl.tool.schema import schema
from agentrl.tool.search import Index

NAMES = tuple(
  f'{kind} {name}'
  for name in ('Tebu', 'Nalo', 'Bako', 'Rife')
  for kind in ('acute', 'late')
)
MATCH, SEARCH, NOTHING = 'match', 'search', 'Nothing.'
ROUNDS = 3  # of reference, at most
FORM = 'tagged'  # of calls
RULES = (
  'Name the disease of the patient, whose symptoms you see. Match them with'
  ' cases, at most three times, and search for what is known of diseases.'
)
_MOST_SEARCHED = 10  # diseases; more score 0
_COMMON = 0.5  # chance from which on a symptom is known of a disease
_QUERY = schema(['query'], query='string')
TOOLS = (
  ToolDescription(MATCH, 'Finds cases with such symptoms.', _QUERY),
  ToolDescription(SEARCH, 'Tells the symptoms of a disease.', _QUERY),
)


class Round(NamedTuple):
  """A round of reference."""

  asked: frozenset[str]  # symptoms
  shown: frozenset[str]  # diseases of the cases


def refer_score(rounds: Sequence[Round], gold: str) -> float:
  """Scores what was referred to.

    seen:      1 - ½ [the last round lacks it] - ½ [a query hardly changed]
    not seen:  0.2 of two rounds, 0.4 of three, 0 if a query hardly changed

  Nothing is taken off a single round. A query that differs from the one before
  by less than two symptoms has hardly changed.
  """
  pairs = itertools.pairwise(rounds)
  changed = all(len(a.asked ^ b.asked) >= 2 for a, b in pairs)
  if any(gold in x.shown for x in rounds):
    return 1 - 0.5 * (gold not in rounds[-1].shown) - 0.5 * (not changed)
  return {2: 0.2, 3: 0.4}.get(len(rounds), 0.0) * changed


def covered(texts: Sequence[str], gold: str) -> float:
  """Returns (share of the words of gold that the texts have)^(1/3)"""
  words = grading.normal(gold).split()
  there = set(grading.normal(' '.join(texts)).split())
  return (sum(x in there for x in words) / len(words)) ** (1 / 3)


@dataclasses.dataclass(frozen=True)
class CaseCorpus:
  """A task is a patient: its symptoms and its disease."""

  diseases: Annotated[int, domain.Whole(2, len(NAMES))] = 6
  cases: Annotated[int, domain.Whole(1, 2000)] = 60  # of the corpus
  shown: domain.Count = 2  # cases of a match
  table: Annotated[int, domain.SEED] = 0  # seed of chances and cases
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    *tool_env.COLUMNS,
    'refer',  # of the ended trajectory, see `refer_score`
    'searched',  # `covered` of the diseases that were searched for
    'named',  # `covered` of the answer
    'rounds',  # matches
    'excess',  # matches beyond the third
    'progress',  # change of Φ: ½ once a case of the disease was seen
  )
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return tool_env.describe_tools(RULES, TOOLS, FORM) if self.teach else ''

  def spans(self, message: str) -> list[Interval]:
    return spans.mark(message, format_of(FORM).locate(message, TOOLS))

  def name(self) -> str:
    return task_sampling.name('case_corpus', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Plays a match, the disease looked up, the answer; see `EnvFamily`.

    Where no case of the disease is shown, other symptoms are tried; where
    that shows none either, there is no demonstration.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns 1 where a case of the disease can be shown, else 0."""
    return float(self._plan(task) is not None)

  def describe(self, task: Mapping[str, Any]) -> str:
    return ' '.join(task['symptoms'])

  def env(self) -> tool_env.ToolEnv:
    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      visit = Visit(self, task['disease'])
      text = ' '.join(task['symptoms'])
      calls = visit.match, visit.search
      tools = [_Tool(*x, call) for x, call in zip(TOOLS, calls, strict=True)]
      return tool_env.ToolTask(text, tools, visit.judge, visit.observe)

    return tool_env.ToolEnv(begin, format_of(FORM), self.columns)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any] | None:
    symptoms, disease = _patient(_table(self), rng)
    number = int(rng.integers(2**31))  # patients may be alike
    task = {'symptoms': symptoms, 'disease': disease, 'number': number}
    return task if len(symptoms) > 1 else None

  def _plan(self, task: Mapping[str, Any]) -> list[str] | None:
    """Returns queries of matches, the last of which shows the disease."""
    every = task['symptoms']
    queries = [every] + [every[:-2], every[2:]] * (len(every) > 3)
    made = []
    for some in queries:
      made.append(' '.join(some))
      if any(task['disease'] == x for x, _ in _found(self, made[-1])):
        return made
    return None

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    queries, disease = self._plan(task), task['disease']
    if queries is None:
      return task, ()
    calls = [Call(MATCH, {'query': x}) for x in queries]
    calls.append(Call(SEARCH, {'query': disease}))
    acts = [format_of(FORM).write([x]) for x in calls]
    return task, (*acts, tool_env.answer_message(disease))


class _Tool:
  """A tool that calls a function of its query."""

  def __init__(
    self,
    name: str,
    description: str,
    schema: dict[str, Any],
    call: Callable[[str], str],
  ):
    self.name, self.description, self.schema = name, description, schema
    self._call = call

  def __call__(self, *, query: str) -> str:
    return self._call(query)


class Visit:
  """What one trajectory has looked up."""

  def __init__(self, family: CaseCorpus, disease: str):
    self._family, self._disease = family, disease
    self._rounds: list[Round] = []
    self._searched: list[str] = []
    self._before = 0, 0.0  # rounds and Φ at the last turn's end

  def match(self, query: str) -> str:
    found = _found(self._family, query)
    asked = frozenset(query.split()) & {*SYMPTOMS}
    self._rounds.append(Round(asked, frozenset(x for x, _ in found)))
    return '\n'.join(f'{x}: {y}' for x, y in found) or NOTHING

  def search(self, query: str) -> str:
    self._searched.append(query)
    table = _table(self._family)
    for d, name in enumerate(NAMES[: self._family.diseases]):
      if grading.exact(query, [name]):
        known = np.flatnonzero(table.chance[:, d] >= _COMMON).tolist()
        return f'{name}: {" ".join(SYMPTOMS[s] for s in known)}'
    return NOTHING

  def observe(self, answers: Sequence[Answer]) -> dict[str, float]:
    """Returns facts of a turn: its matches, and whether it saw the disease."""
    del answers  # the calls are known
    rounds, potential = self._before
    now = 0.5 * any(self._disease in x.shown for x in self._rounds)
    self._before = len(self._rounds), now
    return {
      'rounds': len(self._rounds) - rounds,
      'excess': max(len(self._rounds), ROUNDS) - max(rounds, ROUNDS),
      'progress': now - potential,
    }

  def judge(self, answer: str) -> tool_env.Grade:
    right = float(grading.exact(answer, [self._disease]))
    few = len({*self._searched}) <= _MOST_SEARCHED
    return tool_env.Grade(
      right,
      {
        'refer': refer_score(self._rounds, self._disease),
        'searched': few * covered(self._searched, self._disease),
        'named': covered([answer], self._disease),
        'progress': right - self._before[1],
      },
    )


@functools.lru_cache(maxsize=4)
def _table(family: CaseCorpus) -> diagnosis.DiseaseTable:
  return diagnosis.draw_table(
    family.diseases, len(SYMPTOMS), 0, 0, family.table
  )


@functools.lru_cache(maxsize=4)
def _cases(family: CaseCorpus) -> tuple[list[tuple[str, str]], Index]:
  """Returns (disease, symptoms) of each case, and their index by symptoms."""
  rng = np.random.default_rng([family.table, 7])
  drawn = [_patient(_table(family), rng) for _ in range(family.cases)]
  cases = [(disease, ' '.join(symptoms)) for symptoms, disease in drawn]
  return cases, Index([symptoms for _, symptoms in cases])


def _patient(
  table: diagnosis.DiseaseTable, rng: np.random.Generator
) -> tuple[list[str], str]:
  """Returns the symptoms and disease of a patient."""
  patient = diagnosis.draw_patient(table, rng)
  there = [SYMPTOMS[s] for s, x in enumerate(patient.findings) if x]
  return there, NAMES[patient.disease]


def _found(family: CaseCorpus, query: str) -> list[tuple[str, str]]:
  cases, index = _cases(family)
  return [cases[i] for i in index.best(query, family.shown)]
