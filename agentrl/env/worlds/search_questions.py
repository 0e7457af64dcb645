"""Questions to be answered by searching a corpus, in one hop or two.

Corpus and questions are files of the user's, or made up: people and towns that
no model has read of, so that only the corpus knows.

  Which river is in the town where Nalo Ferin was born?
  <search>Nalo Ferin</search>
  ...
  <search>Tebura</search>
  ...
  <answer>Sarn</answer>

The score is exact match as in SQuAD (arXiv 1606.05250).
"""

import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.env.worlds.invented_names import invented_names
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.search import Search

EXAMPLE = '{"question": "Who ...?", "answers": ["Ann", "Ann Lee"]}'
RULES = 'Answer the question in a few words. Search for what you need.'
_JOBS = ('baker', 'tailor', 'painter', 'doctor', 'sailor', 'teacher', 'miner')
_PEOPLE_OF_A_TOWN = 5
_MOST_PEOPLE = 10_000  # for whom there are names
_ABOUT = 'Searches passages for words and returns the best ones.'
_TOOL = tool_env.ToolDescription(Search.name, _ABOUT, Search.schema)


@dataclasses.dataclass(frozen=True)
class SearchQuestions:
  """A task is a question and the answers that are accepted."""

  corpus: domain.Place = (
    ''  # a file of {"text": ..., "title": ...} a line; '': made up
  )
  questions: domain.Place = (
    ''  # a file, see EXAMPLE; '': made up, as the corpus
  )
  people: Annotated[int, domain.Whole(1, _MOST_PEOPLE)] = (
    200  # of the made-up corpus; four questions for each
  )
  passages: domain.Count = 3  # most that a search shows
  format: FormatName = 'tagged'  # of calls

  columns: ClassVar[tuple[str, ...]] = (*tool_env.COLUMNS, 'f1')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    if bool(self.corpus) != bool(self.questions):
      raise ValueError(
        f'corpus={self.corpus!r} and questions={self.questions!r} belong'
        ' together; give both files or neither'
      )

  @property
  def system(self) -> str:
    return tool_env.describe_tools(RULES, [_TOOL], self.format)

  def name(self) -> str:
    return task_sampling.name(
      'search_questions', self, self.corpus, self.questions
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Searches for what leads there; see `EnvFamily`.

    Questions from a file come without demonstrations. Those that are one
    after normalisation are one task.
    """
    questions = (
      task_sampling.lines(self.questions, _question, EXAMPLE)
      if self.questions
      else made_up(self.people)[1]
    )
    tasks = task_sampling.of_split([self._task(x) for x in questions], split)
    where = self.questions or f'people={self.people}'
    return task_sampling.chosen(tasks, split, count, seed, where)

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, [_TOOL])
    return spans.mark(message, calls)

  def describe(self, task: Mapping[str, Any]) -> str:
    return task['question']

  def env(self) -> tool_env.ToolEnv:
    search = _search(self.corpus, self.people, self.passages)

    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      accepted = task['answers']

      def judge(answer: str) -> tool_env.Grade:
        right = float(grading.exact(answer, accepted))
        return tool_env.Grade(right, {'f1': grading.f1(answer, accepted)})

      return tool_env.ToolTask(task['question'], [search], judge)

    return tool_env.ToolEnv(begin, format_of(self.format), self.columns)

  def _task(self, question: 'Question') -> HostTask:
    form = format_of(self.format)
    calls = [Call(Search.name, {'query': x}) for x in question.queries]
    demo = [form.write([call]) for call in calls]
    if question.queries:
      demo.append(tool_env.answer_message(question.answers[0]))
    task = {'question': question.question, 'answers': list(question.answers)}
    key = task_sampling.key(grading.squad_words(question.question))
    return HostTask(task, tuple(demo), key)


class Question(NamedTuple):
  """A question, its accepted answers, and the searches that lead there."""

  question: str
  answers: tuple[str, ...]  # any is right
  queries: tuple[str, ...] = ()  # that find what it takes, if known


def _question(line: Mapping[str, Any]) -> Question:
  question, accepted = line['question'], tuple(line['answers'])
  if isinstance(line['answers'], str) or not accepted:
    raise ValueError('answers are a list')
  if not all(map(grading.normal, (question, *accepted))):
    raise ValueError('nothing is asked, or an answer has no words')
  return Question(question, accepted)


@functools.lru_cache(maxsize=2)
def _search(corpus: str, people: int, passages: int) -> Search:
  """Makes the search that all environments of a process share."""
  try:
    if corpus:
      return Search(corpus, passages=passages)
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / 'corpus.jsonl'
      path.write_text('\n'.join(map(json.dumps, made_up(people)[0])))
      return Search(path, passages=passages)
  except ImportError as error:
    raise base.missing('bm25s', 'host') from error


@functools.cache
def made_up(
  people: int,
) -> tuple[tuple[dict[str, str], ...], tuple[Question, ...]]:
  """Makes up passages, and questions about them; the same everywhere.

  Each person has a passage (home town, work), and so has each town (river,
  mayor).
  """
  rng = np.random.default_rng(0)
  towns = -(-people // _PEOPLE_OF_A_TOWN)
  names = invented_names(rng, 2 * people + 3 * towns)
  passages, questions = [], []
  for _ in range(towns):
    town, river, mayor = (next(names) for _ in range(3))
    text = f'{town} is a town on the river {river}. Its mayor is {mayor}.'
    passages.append({'title': town, 'text': text})
    for _ in range(min(_PEOPLE_OF_A_TOWN, people)):
      person = f'{next(names)} {next(names)}'
      job = _JOBS[rng.integers(len(_JOBS))]
      there = f'in the town where {person} was born'
      text = f'{person} was born in {town} and works as a {job}.'
      passages.append({'title': person, 'text': text})
      questions += [  # two of one hop and two of two
        Question(f'Where was {person} born?', (town,), (person,)),
        Question(f'What is the work of {person}?', (job,), (person,)),
        Question(f'Which river is {there}?', (river,), (person, town)),
        Question(f'Who is mayor {there}?', (mayor,), (person, town)),
      ]
      people -= 1
  return tuple(passages), tuple(questions)
