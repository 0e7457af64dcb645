"""Questions over a small SQLite database that is different in every task.

  shop(id,city) item(id,name,price) stock(shop,item,n)
  How many items cost over 12?
  <sql>SELECT count(*) FROM item WHERE price>12</sql>
  <result>
  count(*)
  4
  </result>
  <answer>4</answer>

An answer is held against what the gold query gives, so any query that is right
for the database does.
"""

import contextlib
import dataclasses
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.sql import Sql

TABLES = {
  'shop': ('id', 'city'),
  'item': ('id', 'name', 'price'),
  'stock': ('shop', 'item', 'n'),
}
SCHEMA = ' '.join(f'{name}({",".join(x)})' for name, x in TABLES.items())
CITIES = 'Bonn Cork Dover Gent Kiel Lyon Nice Oslo Pisa Riga Turin Vigo'
ITEMS = (  # each takes an s in the plural
  'bag ball bed bell boot bowl bread cap chair clock coat cup desk drum fan'
  ' fork glove hat jar key kite lamp mug nail net oven pan pen pipe plate pot'
  ' ring rope rug saw scarf shirt shoe soap sofa spoon table tent tile toy vase'
  ' wheel'
)
PRICES = 99  # the highest
_PIECES = 9  # most of an item in a shop
JOIN = (
  ' FROM stock JOIN shop ON shop.id=stock.shop JOIN item ON item.id=stock.item'
)
# kind: (question, gold query) pairs; {p} is a price, {i} an item, {c} a city.
TEMPLATES = {
  'count': (
    (
      'How many items cost over {p}?',
      'SELECT count(*) FROM item WHERE price>{p}',
    ),
    (
      'How many items cost under {p}?',
      'SELECT count(*) FROM item WHERE price<{p}',
    ),
  ),
  'max': (
    (
      'Which item under {p} costs most?',
      'SELECT name FROM item WHERE price<{p} ORDER BY price DESC LIMIT 1',
    ),
    (
      'Which item over {p} costs least?',
      'SELECT name FROM item WHERE price>{p} ORDER BY price LIMIT 1',
    ),
  ),
  'sum': (
    (
      'What do all items over {p} cost together?',
      'SELECT sum(price) FROM item WHERE price>{p}',
    ),
    (
      'What do all items under {p} cost together?',
      'SELECT sum(price) FROM item WHERE price<{p}',
    ),
  ),
  'join': (
    (
      'How many {i}s are there in {c}?',
      f"SELECT sum(n){JOIN} WHERE city='{{c}}' AND name='{{i}}'",
    ),
    (
      'What is all stock in {c} worth?',
      f"SELECT sum(n*price){JOIN} WHERE city='{{c}}'",
    ),
    (
      'What does the dearest item in {c} cost?',
      f"SELECT max(price){JOIN} WHERE city='{{c}}'",
    ),
  ),
}
RULES = (
  'Answer the question about the database, whose tables are given, with one'
  ' number or word.'
)
_TOOL = tool_env.ToolDescription(
  Sql.name, 'Runs one read-only SQLite query and returns its rows.', Sql.schema
)


@dataclasses.dataclass(frozen=True)
class SqlQuestions:
  """A task is the rows of its tables, a question, and the gold query.

  A question of the test split, as it is worded, is never one of train's; nor
  is a database.
  """

  kinds: str = 'count max sum join'  # of questions
  things: Annotated[int, domain.Whole(2, len(ITEMS.split()))] = 6  # told of
  shops: Annotated[int, domain.Whole(2, len(CITIES.split()))] = (
    2  # rows of shop
  )
  format: FormatName = 'tagged'  # of calls
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = tool_env.COLUMNS
  worker: ClassVar[str] = 'process'

  def __post_init__(self):
    if not self.kinds.split() or set(self.kinds.split()) - set(TEMPLATES):
      raise ValueError(
        f'kinds={self.kinds!r} must name some of {" ".join(TEMPLATES)}, with'
        ' spaces between'
      )
    for name, words in (('things', ITEMS), ('shops', CITIES)):
      value, most = dataclasses.asdict(self)[name], len(words.split())
      if not 2 <= value <= most:
        raise ValueError(f'{name}={value} is not in 2..{most}; use say 4')
    format_of(self.format)

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    return tool_env.describe_tools(RULES, [_TOOL], self.format)

  def name(self) -> str:
    return task_sampling.name('sql_questions', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Runs the gold query, then answers with its result; see `EnvFamily`."""
    return task_sampling.drawn(
      lambda rng: self._draw(rng, split), self._solve, split, count, seed
    )

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, [_TOOL])
    return spans.mark(message, calls)

  def env(self) -> tool_env.ToolEnv:
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / 'data.sqlite'

    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      path.unlink(missing_ok=True)
      with contextlib.closing(sqlite3.connect(path)) as connection:
        # Nobody needs the file after a crash of the machine.
        connection.execute('PRAGMA synchronous=OFF')
        fill(connection, task['rows'])
        gold = result(connection, task['gold'])

      def judge(answer: str) -> tool_env.Grade:
        return tool_env.Grade(float(grading.same(answer, gold)))

      text = f'{SCHEMA}\n{task["question"]}'
      return tool_env.ToolTask(text, [Sql(path)], judge)

    return tool_env.ToolEnv(
      begin, format_of(self.format), self.columns, folder.cleanup
    )

  def _draw(self, rng: np.random.Generator, split: str) -> dict | None:
    cities = rng.permutation(CITIES.split())[: self.shops].tolist()
    items = rng.permutation(ITEMS.split())[: self.things].tolist()
    templates = TEMPLATES[rng.choice(self.kinds.split())]
    values = {
      'p': int(rng.integers(2, PRICES)),
      'i': items[rng.integers(self.things)],
      'c': cities[rng.integers(self.shops)],
    }
    question, gold = (
      x.format(**values) for x in templates[rng.integers(len(templates))]
    )
    # The split of a task is by all of it, and here by the question alone too.
    if task_sampling.split(question) != split:
      return None
    rows = make_rows(rng, items, cities)
    task = {'rows': rows, 'question': question, 'gold': gold}
    return task if _answer(task) not in ('None', '0') else None

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    call = Call(Sql.name, {'query': task['gold']})
    answer = tool_env.answer_message(_answer(task))
    return task, (format_of(self.format).write([call]), answer)


def make_rows(
  rng: np.random.Generator, items: list[str], cities: list[str]
) -> dict[str, list]:
  """Makes the rows of each table; prices differ, so that the dearest is one."""
  prices = rng.permutation(PRICES)[: len(items)] + 1
  stock = rng.integers(0, _PIECES + 1, (len(cities), len(items)))
  return {
    'shop': [[i, city] for i, city in enumerate(cities, 1)],
    'item': [
      [i, name, int(price)]
      for i, (name, price) in enumerate(zip(items, prices, strict=True), 1)
    ],
    'stock': [
      [shop, item, n]
      for shop, pieces in enumerate(stock.tolist(), 1)
      for item, n in enumerate(pieces, 1)
      if n
    ],
  }


def fill(connection: sqlite3.Connection, rows: Mapping[str, list]) -> None:
  """Makes the tables and their rows."""
  for table, names in TABLES.items():
    connection.execute(f'CREATE TABLE {table}({",".join(names)})')
    places = ','.join('?' * len(names))
    connection.executemany(f'INSERT INTO {table} VALUES({places})', rows[table])
  connection.commit()


def result(connection: sqlite3.Connection, query: str) -> str:
  """Returns the one value that a gold query gives; 'None' for none."""
  row = connection.execute(query).fetchone()
  return str(row[0]) if row else 'None'


def _answer(task: Mapping[str, Any]) -> str:
  with contextlib.closing(sqlite3.connect(':memory:')) as connection:
    fill(connection, task['rows'])
    return result(connection, task['gold'])
