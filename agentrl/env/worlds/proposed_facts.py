"""Search questions that the policy writes for given answers, then solves.

  ask for: Nalo
  <bm25>mayor Nalo</bm25>
  <result>
  Tebu's mayor is Nalo.
  </result>
  <answer>Tebu's mayor?</answer>

is a task if the question is in form, does not tell its answer, begins at an
entity of the training split, and follows from the passages that its proposer
has found, among others that were not. The solver has only the question.

Who verifies the last part may answer it first and then compare, or see the
proposed answer first and look for what supports it. That one is fooled by a
question whose last step alone fits the answer.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import proposals, task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.env.proposals import (
  COLUMNS,
  HELD_OUT,
  SEED,
  Heard,
  Proposal,
  RoleEnv,
)
from agentrl.env.worlds.fact_corpus import env as fact_env
from agentrl.env.worlds.fact_corpus import questions, verifier
from agentrl.env.worlds.fact_corpus.corpus import RELATIONS, Corpus, Fact
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.text import grading
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.base import Tool

_QUESTION = re.compile(r"(\w{1,40})((?:'s \w{1,20}){1,8})\?")
ASK = (
  ' Asked to "ask for" something, search, then write a question that it is the'
  ' answer to.'
)


@dataclasses.dataclass(frozen=True)
class ProposedFacts(fact_env.FactCorpus):
  """Every second training task is a seed: its demonstration asks a question."""

  commit: Annotated[str, domain.OneOf('first', 'after')] = (
    'first'  # the verifier answers before it sees the proposed answer, or after
  )
  noise: Annotated[int, domain.Whole(0, 64)] = (
    4  # passages of others that the verifier reads too
  )

  columns: ClassVar[tuple[str, ...]] = (*fact_env.FactCorpus.columns, *COLUMNS)

  def __post_init__(self):
    super().__post_init__()
    others = 'unanswerable', 'aggregated', 'masked', 'subgoals', 'experience'
    if got := [f'{x}={y}' for x in others if (y := getattr(self, x))]:
      raise ValueError(
        f'{", ".join(others)} must be 0 or False for questions that are'
        f' proposed, got {", ".join(got)}'
      )

  @property
  def system(self) -> str:
    text = super().system
    return text and text + ASK

  def name(self) -> str:
    return task_sampling.name('proposed_facts', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields questions; to train on, every second is an answer to ask for."""
    made = super().tasks(split, count, seed)
    return proposals.with_seeds(made, split, self._asked)

  def env(self) -> RoleEnv:
    form, tools = format_of(self.format), fact_env.tools_of(self)

    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      return tool_env.ToolTask(task[SEED], tools, lambda answer: judge(task))

    def judge(task: Mapping[str, Any]) -> tool_env.Grade:
      made = self.proposed(task, heard.messages, heard.observations)
      return tool_env.Grade(float(not made.fault))

    heard = Heard(tool_env.ToolEnv(begin, form, self.columns))
    return RoleEnv(heard, super().env())

  def seed(self, task: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer of a task, for which a question is to be asked."""
    if SEED in task:
      return dict(task)
    answer = task['answers'][0]
    return {SEED: f'ask for: {answer}', 'answer': answer}

  def proposed(
    self,
    seed: Mapping[str, Any],
    messages: Sequence[str],
    observations: Sequence[str],
  ) -> Proposal:
    """Verifies a question by the passages that its proposer has read."""
    text, corpus = proposals.written(messages), self.corpus()
    question = self._read(text)
    if question is None:
      return Proposal(text, fault='format')
    if proposals.leaks(seed['answer'], text):
      return Proposal(text, fault='leak')
    found = [
      line
      for shown in observations[1:]
      for line in shown.splitlines()
      if line in corpus.ids
    ]
    if not found:
      return Proposal(text, fault='search')
    start = corpus.entities.get(question.start)
    if start is not None and start.split == 'test':
      return Proposal(text, fault=HELD_OUT)
    if not self._follows(text, seed['answer'], found):
      return Proposal(text, fault='unanswerable')
    task = questions.task(corpus, question)
    return Proposal(text, {**task, 'answers': [seed['answer']]})

  def answer(self, task: Mapping[str, Any], message: str) -> str:
    """Returns the answer without case, punctuation and articles."""
    del task
    return grading.normal(tool_env.final(message) or '')

  def _read(self, text: str) -> FactQuestion | None:
    """Reads a chain of relations; None for anything else."""
    made = _QUESTION.fullmatch(text)
    if made is None:
      return None
    path = tuple(made[2].split("'s ")[1:])
    known = {x for some in RELATIONS.values() for x in some}
    fits = self.min_hops <= len(path) <= self.max_hops
    if not fits or not known.issuperset(path):
      return None
    return FactQuestion('chain', made[1], path)

  def _follows(self, text: str, answer: str, found: Sequence[str]) -> bool:
    """Asks the verifier whether an answer follows from what was found."""
    read = [*found, *_others(self.corpus(), text, self.noise)]
    question = text.rstrip('?')
    if self.commit == 'first':
      own = verifier.path(question, read)
      whole = len(own) == text.count("'s ") + 1
      return whole and grading.exact(own[-1], [answer])
    # It looks for support of what it was told, and finds some.
    last = question.rpartition("'s ")[2]
    facts = [x for passage in read for x in verifier.FACT.findall(passage)]
    return any((x[2], x[3]) == (last, answer) for x in facts)

  def _asked(self, made: HostTask) -> HostTask:
    """Asks for the answer of a task by searching backwards from it."""
    seed = self.seed(made.task)
    rng = np.random.default_rng(int(made.key[:8], 16))
    walked = backwards(
      self.corpus(),
      seed['answer'],
      int(rng.integers(self.min_hops, self.max_hops + 1)),
      fact_env.tools_of(self)[0],
      rng,
    )
    if walked is None:
      return HostTask(seed, (), made.key)
    calls, question = walked
    write = format_of(self.format).write
    said = (*(write([x]) for x in calls), tool_env.answer_message(question))
    return HostTask(seed, said, made.key)


def backwards(
  corpus: Corpus,
  answer: str,
  hops: int,
  tool: Tool,
  rng: np.random.Generator,
) -> tuple[list[Call], str] | None:
  """Searches for facts that lead to an answer, the last one first.

  Each search names a relation and what it is to lead to, and shows whom it
  begins at. None where nothing is shown, or the question would begin in the
  test split.

  Returns: calls, and the question
  """
  at, calls, path = answer, [], list[str]()
  for _ in range(hops):
    kind = corpus.entities[at].kind if at in corpus.entities else 'number'
    fit = [
      relation
      for relations in RELATIONS.values()
      for relation, end in relations.items()
      if end == kind
    ]
    for relation in rng.permutation(fit).tolist():
      query = f'{relation} {at}'
      fact = _shown(corpus, tool(query=query), relation, at)
      if fact is not None and fact.subject != answer:
        break
    else:
      return None
    calls.append(Call(tool.name, {'query': query}))
    at = fact.subject
    path.insert(0, relation)
  if corpus.entities[at].split == 'test':
    return None
  text = questions.text(FactQuestion('chain', at, tuple(path)))
  return None if proposals.leaks(answer, text) else (calls, text)


def _shown(corpus: Corpus, text: str, relation: str, end: str) -> Fact | None:
  """Finds a fact that holds, by its relation and end, among passages."""
  for line in text.splitlines():
    place = corpus.ids.get(line, -1)
    fact = corpus.facts.get(place)
    if fact is None or (fact.relation, fact.object) != (relation, end):
      continue
    if corpus.holds[fact.subject, relation] == place:
      return fact
  return None


def _others(corpus: Corpus, text: str, count: int) -> list[str]:
  """Draws passages that were not searched for, fixed by the question."""
  rng = np.random.default_rng(int(task_sampling.key(text)[:8], 16))
  places = rng.choice(len(corpus.passages), count, replace=False)
  return [corpus.passages[i] for i in places]
