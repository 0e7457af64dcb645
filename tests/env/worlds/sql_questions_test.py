"""Answers counted in Python, from the rows; and other right queries."""

import collections
import contextlib
import re
import sqlite3

import pytest

from agentrl.env import tool_env
from agentrl.env.worlds.sql_questions import (
  SCHEMA,
  TEMPLATES,
  SqlQuestions,
  fill,
  result,
)
from tests.env.promises import refuses

ROWS = {
  'shop': [[1, 'Oslo'], [2, 'Pisa']],
  'item': [[1, 'cup', 5], [2, 'hat', 20], [3, 'pen', 2]],
  'stock': [[1, 1, 4], [1, 3, 6], [2, 2, 1], [2, 3, 8]],
}
ASKED = 'How many pens are there in Pisa?'
GOLD = (
  'SELECT sum(n) FROM stock JOIN shop ON shop.id=stock.shop JOIN item ON'
  " item.id=stock.item WHERE city='Pisa' AND name='pen'"
)


def counted(question, rows):
  """The answer without SQL."""
  prices = {name: price for _, name, price in rows['item']}
  there = collections.defaultdict(dict)
  names = {i: name for i, name, _ in rows['item']}
  cities = dict(rows['shop'])
  for shop, item, n in rows['stock']:
    there[cities[shop]][names[item]] = n
  words = question.rstrip('?').split()
  if found := re.search(r'(over|under) (\d+)', question):
    limit = int(found[2])
    over = {k: p for k, p in prices.items() if p > limit}
    under = {k: p for k, p in prices.items() if p < limit}
    some = over if found[1] == 'over' else under
    if words[:3] == ['How', 'many', 'items']:
      return len(some)
    if words[0] == 'What':
      return sum(some.values())
    pick = max if words[-1] == 'most' else min
    return pick(some, key=some.get)
  if words[:2] == ['How', 'many']:
    return there[words[-1]][words[2].removesuffix('s')]
  if 'worth' in words:
    return sum(n * prices[k] for k, n in there[words[-2]].items())
  assert words[:4] == ['What', 'does', 'the', 'dearest']
  return max(prices[k] for k in there[words[-2]])


@pytest.fixture(scope='module')
def solved():
  return list(SqlQuestions(things=8, shops=3).tasks('train', 150, 0))


def test_gold_queries_answer_their_questions(solved):
  for task, said, _ in solved:
    assert tool_env.final(said[-1]) == str(
      counted(task['question'], task['rows'])
    )


def test_every_template_turns_up(solved):
  asked = {re.sub(r'\d+|[A-Z]\w+', '', t.task['question']) for t in solved}
  kinds = sum(map(len, TEMPLATES.values()))
  joined = [t for t in solved if 'JOIN' in t.task['gold']]
  assert len({re.sub(r'many \w+s are', '', x) for x in asked}) == kinds
  assert 0 < len(joined) < len(solved)


def test_only_the_kinds_asked_for():
  for task, _, _ in SqlQuestions('sum').tasks('train', 20, 0):
    assert task['gold'].startswith('SELECT sum(price) FROM item')


@pytest.fixture
def env():
  env = SqlQuestions().env()
  text = env.reset({'rows': ROWS, 'question': ASKED, 'gold': GOLD}, 0)
  assert text == f'{SCHEMA}\n{ASKED}'
  yield env
  env.close()


def test_the_schema_it_shows_is_that_of_the_tables():
  with contextlib.closing(sqlite3.connect(':memory:')) as connection:
    fill(connection, ROWS)
    for table in re.findall(r'(\w+)\((.*?)\)', SCHEMA):
      rows = connection.execute(f'SELECT {table[1]} FROM {table[0]}').fetchall()
      assert [list(row) for row in rows] == ROWS[table[0]]


@pytest.mark.parametrize(
  'query',
  [
    'SELECT n FROM stock WHERE shop=2 AND item=3',
    "SELECT n FROM stock s, item i WHERE item=i.id AND name='pen' AND shop=2",
    GOLD,
  ],
)
def test_another_query_leads_there(env, query):
  shown = env.step(f'<sql>{query}</sql>').text.splitlines()
  assert shown[2] == '8'
  assert env.step(tool_env.answer_message('16/2')).score == 1


def test_the_database_is_read_only_and_of_this_task(env):
  reply = env.step('<sql>DELETE FROM stock</sql>')
  assert reply.info['faults'] == 1
  assert '8' in env.step('<sql>SELECT n FROM stock WHERE item=3</sql>').text
  other = ROWS | {'item': [[1, 'kite', 1]], 'stock': []}
  gold = 'SELECT name FROM item'
  env.reset({'rows': other, 'question': '?', 'gold': gold}, 0)
  assert 'kite' in env.step('<sql>SELECT name FROM item</sql>').text
  assert env.step(tool_env.answer_message('Kite.')).score == 1


def test_a_query_without_rows_is_none():
  with contextlib.closing(sqlite3.connect(':memory:')) as connection:
    fill(connection, ROWS)
    assert result(connection, 'SELECT 1 WHERE 0') == 'None'
    assert result(connection, 'SELECT sum(n) FROM stock WHERE 0') == 'None'
    assert result(connection, GOLD) == '8'


def test_bad_settings():
  refuses(
    SqlQuestions,
    kinds=('', 'count,max'),
    things=(1, 500),
    shops=(13,),
    format=('xml',),
  )
