"""Questions about generated tables, asked with SQL, Python or both.

  shop(id,city) item(id,name,price) stock(shop,item,n)
  What do items over 12 cost on average?
  <python>x=[p for i,n,p in item if p>12]
  print(sum(x)/len(x))</python>
  <result>
  31.5
  </result>
  <answer>31.5</answer>

As in `sql_questions`, whose tables they are; in Python each is a list of rows.
Most answers are graded by a rule. An open question ("Describe ...") is graded
by a criterion: a checklist of facts that stands in the task and that the
question does not show. A method that rewards the two differently, as
TableGPT-R1 does, reads the column `rule`.
"""

import contextlib
import dataclasses
import pathlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.env.worlds import sql_questions
from agentrl.env.worlds.sql_questions import CITIES, ITEMS, PRICES, SCHEMA
from agentrl.env.worlds.table_templates import OPEN, QUESTIONS, gold_facts
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.base import Answer
from agentrl.tool.python import Python
from agentrl.tool.sandbox.sandbox import Sandbox
from agentrl.tool.sql import Sql

_WORDS = 3  # of an open answer for each fact: a list of all there is holds all
RULES = (
  'Answer the question about the tables, which are given, with one number or'
  ' word; if you are to describe something, with the facts.'
)
_TOOLS = {
  Sql.name: tool_env.ToolDescription(
    Sql.name,
    'Runs one read-only SQLite query and returns its rows.',
    Sql.schema,
  ),
  Python.name: tool_env.ToolDescription(
    Python.name,
    'Runs a Python program, in which each table is a list of rows, and returns'
    ' what it prints.',
    Python.schema,
  ),
}
_ARGUMENT = {Sql.name: 'query', Python.name: 'code'}
_HEADS = {Sql.name: 1, Python.name: 0}  # lines of a result above its rows


@dataclasses.dataclass(frozen=True)
class TableQuestions:
  """A task is the rows of its tables, a question, the gold query and its facts.

  A question of the test split, as it is worded, is never one of train's; nor
  are tables.
  """

  kinds: str = 'count sum max mean join group open'  # of questions
  tools: str = 'sql python'  # one or both; the tables can be asked with them
  things: Annotated[int, domain.Whole(2, len(ITEMS.split()))] = 6  # told of
  shops: Annotated[int, domain.Whole(2, len(CITIES.split()))] = (
    2  # rows of shop
  )
  format: FormatName = 'tagged'  # of calls
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    *tool_env.COLUMNS,
    'rule',
    'covered',
    'f1',
    'progress',
  )
  worker: ClassVar[str] = 'process'

  def __post_init__(self):
    domain.check_fields(self)
    for name, words in (('kinds', QUESTIONS), ('tools', _TOOLS)):
      value = dataclasses.asdict(self)[name]
      if not value.split() or set(value.split()) - set(words):
        raise ValueError(
          f'{name}={value!r} must name some of {" ".join(words)}, with spaces'
          ' between'
        )

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    return tool_env.describe_tools(RULES, self._descriptions, self.format)

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, self._descriptions)
    return spans.mark(message, calls)

  @property
  def _descriptions(self) -> list[Any]:
    return [_TOOLS[name] for name in self.tools.split()]

  def name(self) -> str:
    return task_sampling.name('table_questions', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Asks one of the tools, then answers; see `EnvFamily`."""
    return task_sampling.drawn(
      lambda rng: self._draw(rng, split), self._solve, split, count, seed
    )

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the best score, the demonstration's: no call costs anything."""
    return float(criterion(' '.join(task['facts']), task['facts']))

  def env(self) -> tool_env.ToolEnv:
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / 'data.sqlite'
    makers: dict[str, Callable[[Mapping[str, list]], Any]] = {
      Sql.name: lambda rows: _database(path, rows)
    }
    if Python.name in self.tools.split():
      try:
        sandbox = Sandbox()
      except RuntimeError as error:
        raise ValueError(str(error)) from error
      makers[Python.name] = lambda rows: Python(sandbox, prelude=prelude(rows))

    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      tools = [makers[name](task['rows']) for name in self.tools.split()]
      text = f'{SCHEMA}\n{task["question"]}'
      return tool_env.ToolTask(text, tools, _judge(task), _observer(task))

    return tool_env.ToolEnv(
      begin, format_of(self.format), self.columns, folder.cleanup
    )

  def _draw(self, rng: np.random.Generator, split: str) -> dict | None:
    cities = rng.permutation(CITIES.split())[: self.shops].tolist()
    items = rng.permutation(ITEMS.split())[: self.things].tolist()
    kind = str(rng.choice(self.kinds.split()))
    values = {
      'p': int(rng.integers(2, PRICES)),
      'i': items[rng.integers(self.things)],
      'c': cities[rng.integers(self.shops)],
    }
    which = QUESTIONS[kind][rng.integers(len(QUESTIONS[kind]))]
    question, gold, code = (x.format(**values) for x in which)
    # The split of a task is by all of it, and here by the question alone too.
    if task_sampling.split(question) != split:
      return None
    rows = sql_questions.make_rows(rng, items, cities)
    facts = gold_facts(rows, kind, gold)
    if not facts:
      return None
    return {
      **{'rows': rows, 'question': question, 'gold': gold, 'code': code},
      **{'kind': kind, 'rule': int(kind not in OPEN), 'facts': facts},
    }

  def _solve(self, drawn: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    tools = self.tools.split()
    name = tools[int(task_sampling.key(drawn), 16) % len(tools)]
    task = {key: value for key, value in drawn.items() if key != 'code'}
    texts = {Sql.name: drawn['gold'], Python.name: drawn['code']}
    call = Call(name, {_ARGUMENT[name]: texts[name]})
    answer = tool_env.answer_message(' '.join(task['facts']))
    return task, (format_of(self.format).write([call]), answer)


def criterion(answer: str, facts: Sequence[str]) -> bool:
  """Returns an answer that holds all facts, in at most three words for each."""
  short = len(answer.split()) <= _WORDS * len(facts)
  return short and covered(answer, facts) == 1


def covered(answer: str, facts: Sequence[str]) -> float:
  """Measures the share of facts, a number or word each, in an answer."""
  words = [word.strip(',;:()') for word in answer.split()]
  return sum(
    any(grading.same(word, fact) for word in words) for fact in facts
  ) / len(facts)


def prelude(rows: Mapping[str, list]) -> str:
  """Writes a line of Python that makes the tables: lists of rows, by name."""
  return ';'.join(f'{name}={table!r}' for name, table in rows.items()) + '\n'


def _database(path: pathlib.Path, rows: Mapping[str, list]) -> Sql:
  path.unlink(missing_ok=True)
  with contextlib.closing(sqlite3.connect(path)) as connection:
    # Nobody needs the file after a crash of the machine.
    connection.execute('PRAGMA synchronous=OFF')
    sql_questions.fill(connection, rows)
  return Sql(path)


def _judge(task: Mapping[str, Any]) -> Callable[[str], tool_env.Grade]:
  facts = task['facts']

  def judge(answer: str) -> tool_env.Grade:
    right = (
      grading.same(answer, facts[0])
      if task['rule']
      else criterion(answer, facts)
    )
    info = {
      'covered': covered(answer, facts),
      'f1': grading.f1(answer, [' '.join(facts)]),
    }
    return tool_env.Grade(float(right), info)

  return judge


def _observer(
  task: Mapping[str, Any],
) -> Callable[[Sequence[Answer]], Mapping[str, float]]:
  """Measures progress: the share of facts that results show for the first time.

  A result counts if it is of one row. A dump of the tables holds most numbers
  that can be asked for, and nobody has found them in it.
  """
  seen: set[str] = set()

  def observe(results: Sequence[Answer]) -> Mapping[str, float]:
    values = [value for x in results for value in _only_row(x)]
    new = {
      fact
      for fact in task['facts']
      if fact not in seen and any(grading.same(x, fact) for x in values)
    }
    seen.update(new)
    progress = len(new) / len(task['facts'])
    return {'rule': float(task['rule']), 'progress': progress}

  return observe


def _only_row(result: Answer) -> list[str]:
  """Returns the values of a result that is one row."""
  rows = result.text.splitlines()[_HEADS.get(result.name, 0) :]
  if result.fault or len(rows) != 1:
    return []
  return rows[0].replace('|', ' ').split()
