"""Questions over a generated corpus whose facts no model has read.

  Bako's home's mayor?
  <bm25>Bako home</bm25>
  <result>
  Bako's home is Tebu.
  </result>
  <bm25>Tebu mayor</bm25>
  <result>
  Tebu's mayor is Nalo.
  </result>
  <answer>Nalo</answer>

The score is exact match as in SQuAD (arXiv 1606.05250); `reading.COLUMNS` say
what of the gold evidence a turn has brought. A message may hold
<note>...</note>, which is neither read as a call nor as an answer, and beside
the answer `<evidence>1 2</evidence>`, the turns that prove it, for a judge.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import asking, task_sampling, tool_env
from agentrl.env.base import HostEnv, HostTask, Step
from agentrl.env.worlds.fact_corpus import (
  atoms,
  detours,
  expert,
  questions,
  reading,
  retrievers,
  team,
)
from agentrl.env.worlds.fact_corpus import corpus as corpora
from agentrl.env.worlds.fact_corpus.corpus import Corpus
from agentrl.env.worlds.fact_corpus.questions import FactQuestion, Mix
from agentrl.text import spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call, Described, spoken
from agentrl.tool.base import Tool

RULES = (
  'Answer the question from the passages with one name or number, or with'
  f' "{questions.UNKNOWN}" where they do not say. Where passages disagree, the'
  ' one of the latest year holds. What you write between <note> and </note> is'
  ' for yourself.'
)
MASKS = (
  ' Of a text the answer is what stands in place of each _, in order, with a'
  ' comma between two.'
)
HELD_OUT = ('chains', 'facts')
_NOTE = re.compile(r'<note>(.*?)</note>', re.DOTALL)
_MOST_HOPS = 4


@dataclasses.dataclass(frozen=True)
class FactCorpus:
  """A task is a question, its accepted answers and its gold evidence.

  Questions of the two splits begin at different entities, so that none is the
  beginning of another split's either. Both are over one corpus.
  """

  people: Annotated[
    int, domain.Whole(corpora.LEAST_PEOPLE, corpora.MOST_PEOPLE)
  ] = 200  # of the corpus; a fifth as many places, and as many events
  min_hops: Annotated[int, domain.Whole(1, _MOST_HOPS, most='max_hops')] = (
    1  # facts to follow, at least
  )
  max_hops: Annotated[int, domain.Whole(1, _MOST_HOPS)] = 2  # and at most
  held_out: Annotated[str, domain.OneOf(*HELD_OUT)] = (
    'chains'  # of test: 'facts': train and test share no evidence either
  )
  distractors: Annotated[int, domain.Whole(0, 8)] = (
    0  # passages for each fact that deny another object of it
  )
  contradictions: domain.Chance = (
    0.0  # of a fact, that a passage of an earlier year disagrees
  )
  unanswerable: domain.Chance = 0.0  # share of questions that nothing answers
  aggregated: domain.Chance = 0.0  # share of questions over a set
  aggregates: str = 'count max'  # kinds of those
  masked: domain.Chance = 0.0  # share of texts with a mask for every hop
  retrievers: str = 'bm25'  # tools: bm25, dense, graph, liar and aggregate
  lies: domain.Chance = 0.3  # share of false facts that the liar shows
  passages: domain.Count = 1  # most that a call shows
  notes: bool = False  # demonstrations note what is known, see _noted
  thoughts: bool = False  # demonstrations think in units, see atoms.py
  evidence: bool = False  # demonstrations end with the turns that prove it
  careful: domain.Chance = 0.0  # of a detour on each side of a shown call
  team: bool = False  # demonstrations are a team's, see team.py
  subgoals: bool = False  # observations end with the next open step of a chain
  experience: bool = False  # a tool asks a memory; demonstrations ask it first
  format: FormatName = 'tagged'  # of calls
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    *tool_env.COLUMNS,
    *reading.COLUMNS,
    'notes',
  )
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    _check_words('aggregates', self.aggregates, questions.AGGREGATES)
    _check_words('retrievers', self.retrievers, retrievers.DESCRIPTIONS)
    if self.unanswerable + self.aggregated + self.masked > 1:
      raise ValueError(
        f'unanswerable={self.unanswerable}, aggregated={self.aggregated} and'
        f' masked={self.masked} are more than all questions; lower one'
      )
    if self.team and self.notes:
      raise ValueError(
        'team=True has notes of its own, with their roles; set notes=False'
      )
    if self.subgoals and (self.aggregated or self.masked):
      raise ValueError(
        f'subgoals=True are of chains, got aggregated={self.aggregated} and'
        f' masked={self.masked}; set these to 0'
      )
    noted = self.notes or self.thoughts or self.team
    chains = not (self.aggregated or self.masked or self.unanswerable)
    if self.careful and (noted or not chains):
      raise ValueError(
        f'careful={self.careful} must be 0 with notes, thoughts, a team or'
        ' questions other than chains'
      )
    if self.contradictions and self.passages < 2:
      raise ValueError(
        f'contradictions={self.contradictions} with passages={self.passages}'
        ' would hide which passage is later; set passages to 2 or more'
      )

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    rules = RULES + MASKS * (self.masked > 0)
    return tool_env.describe_tools(rules, self._descriptions, self.format)

  def spans(self, message: str) -> list[Interval]:
    read = _NOTE.sub(lambda note: ' ' * len(note[0]), message)
    calls = format_of(self.format).locate(read, self._descriptions)
    return spans.mark(message, calls)

  @property
  def asks(self) -> bool:
    return self.experience

  def asked(self, message: str) -> str:
    if not self.experience:
      return ''
    form = format_of(self.format)
    return asking.query_of(_NOTE.sub('', message), form, self._descriptions)

  @property
  def _descriptions(self) -> list[Described]:
    described = (retrievers.describe(x) for x in self.retrievers.split())
    return [*described, *self.more_tools]

  @property
  def more_tools(self) -> tuple[Tool, ...]:
    """Tools that show no passages."""
    return (asking.EXPERIENCE,) if self.experience else ()

  def name(self) -> str:
    return task_sampling.name('fact_corpus', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Calls for each hop, then answers; see `EnvFamily`.

    A question without a demonstration is one whose evidence the tools do not
    show.
    """
    mix = Mix(
      min_hops=self.min_hops,
      max_hops=self.max_hops,
      unanswerable=self.unanswerable,
      aggregated=self.aggregated,
      aggregates=tuple(self.aggregates.split()),
      members=self.passages + 1,
      masked=self.masked,
    )

    def draw(rng: np.random.Generator) -> list | None:
      question = questions.draw(self.corpus(), mix, split, rng)
      return questions.salted(question, split) if question else None

    return task_sampling.drawn(draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> HostEnv:
    return FactEnv(self)

  def corpus(self) -> Corpus:
    """Returns the corpus that both splits are about."""
    return corpora.made(
      self.people, self.contradictions, self.distractors, self.held_out
    )

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Scores the scripted expert from the start; calls cost nothing.

    1, which no policy exceeds, where the tools show all evidence; else 0: the
    expert does not guess.
    """
    question = questions.of_task(task)
    return float(
      expert.plan(self.corpus(), question, tools_of(self)) is not None
    )

  def _solve(self, content: list) -> tuple[dict[str, Any], tuple[str, ...]]:
    *fields, _ = content  # the salt
    question = FactQuestion(*fields)
    corpus, form = self.corpus(), format_of(self.format)
    task = questions.task(corpus, question)
    planned = expert.plan(corpus, question, tools_of(self))
    if planned is None:
      return task, ()
    calls, read = planned
    task['calls'] = [{'name': x.name, 'arguments': dict(x.args)} for x in calls]
    if self.subgoals:
      *facts, _ = questions.steps(corpus, task)
      task['milestones'] = [f'A result states: {x}' for x in facts]
    made = self._detoured(calls, task['evidence'], content)
    acts = [form.write([x.call]) for x in made]
    answer = tool_env.answer_message(task['answers'][0])
    begun = 1 + self.experience
    proof = ' '.join(str(k) for k, x in enumerate(made, begun) if x.needed)
    acts.append(answer + f'<evidence>{proof}</evidence>' * self.evidence)
    notes = ['']
    if self.notes:
      notes += [f'<note>{x}</note>' for x in _noted(task, read)]
    if self.team:
      notes = team.tags(question, read)
    notes += [''] * (len(acts) - len(notes))
    if self.thoughts:
      plan = atoms.thought(atoms.PLAN, ', '.join(question.path))
      after = [atoms.thought(atoms.OBSERVATION, x) for x in read]
      notes = [*map(''.join, zip([plan, *after], notes, strict=True))]
    messages = tuple(map(''.join, zip(notes, acts, strict=True)))
    if self.experience:
      ask = Call(asking.EXPERIENCE.name, {'query': task['question']})
      messages = (form.write([ask]), *messages)
    return task, messages

  def _detoured(
    self, calls: Sequence[Call], evidence: Sequence[int], content: list
  ) -> list[detours.Searched]:
    """Returns the calls with detours, the same ones for the same question."""
    if not self.careful:
      return [detours.Searched(call, needed=True) for call in calls]
    seed = int(task_sampling.key(content)[:8], 16)
    return [
      *detours.searched(
        calls,
        evidence,
        self.corpus(),
        tools_of(self),
        rate=self.careful,
        rng=np.random.default_rng(seed),
      )
    ]


class FactEnv:
  """`ToolEnv` with notes and subgoals; see `HostEnv`."""

  def __init__(self, family: FactCorpus):
    self._family = family
    self._tools = (*tools_of(family), *family.more_tools)
    form = format_of(family.format)
    self._env = tool_env.ToolEnv(self._begin, form, family.columns)

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    return self._env.reset(task, seed) + self._next()

  def step(self, message: str) -> Step:
    step = self._env.step(_NOTE.sub('', message))
    notes = float(len(_NOTE.findall(spoken(message))))
    text = step.text if step.done else step.text + self._next()
    return step._replace(text=text, info={**step.info, 'notes': notes})

  def fork(self) -> 'FactEnv':
    other = FactEnv(self._family)
    other._read = self._read.copy()
    other._env.go_on(other._under_way())
    return other

  def close(self) -> None:
    self._env.close()

  def _begin(self, task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
    del seed  # nothing is random
    self._read = reading.Reading(self._family.corpus(), task)
    return self._under_way()

  def _under_way(self) -> tool_env.ToolTask:
    """Returns the task, from what was read so far."""
    read = self._read
    return tool_env.ToolTask(
      read.question, self._tools, read.judge, read.observe
    )

  def _next(self) -> str:
    return f'\nnext: {self._read.subgoal()}' if self._family.subgoals else ''


def _noted(task: Mapping[str, Any], read: Sequence[str]) -> list[str]:
  """Lists what is known after each call, facts between stars.

    *Bako's home is Tebu.* *Tebu's mayor is Nalo.* Bako's home's mayor is Nalo.

  The last one ends with what follows for the question, unless a fact says it.
  """
  facts = [f'*{x}*' for x in read]
  out = [' '.join(facts[: k + 1]) for k in range(len(facts))]
  end = f'{task["question"].rstrip("?")} is {task["answers"][0]}.'
  if out and end not in read:
    out[-1] += f' {end}'
  return out


@functools.lru_cache(maxsize=4)
def tools_of(family: FactCorpus) -> tuple[Tool, ...]:
  """Makes tools that all environments of a process share."""
  return retrievers.tools(
    family.corpus(),
    family.retrievers.split(),
    family.passages,
    family.lies,
  )


def _check_words(field: str, value: str, words: Sequence[str]) -> None:
  """Raises ValueError unless the value names some of the words, each once."""
  chosen = value.split()
  if not chosen or set(chosen) - set(words) or len(set(chosen)) < len(chosen):
    raise ValueError(
      f'{field}={value!r} must name some of {" ".join(words)}, each once, with'
      ' spaces between'
    )
