"""Each template's SQL against its Python, and both against the rows."""

import contextlib
import io
import sqlite3

import numpy as np
import pytest

from agentrl.env.worlds import sql_questions
from agentrl.env.worlds.sql_questions import CITIES, ITEMS
from agentrl.env.worlds.table_questions import prelude
from agentrl.env.worlds.table_templates import OPEN, QUESTIONS, gold_facts
from agentrl.text import grading
from tests.env.worlds.sql_questions_test import ROWS

ALL = [(kind, x) for kind, some in QUESTIONS.items() for x in some]


def printed(code, rows):
  out = io.StringIO()
  with contextlib.redirect_stdout(out):
    exec(prelude(rows) + code, {})
  return out.getvalue().split()


def executed(query, rows):
  with contextlib.closing(sqlite3.connect(':memory:')) as connection:
    sql_questions.fill(connection, rows)
    return connection.execute(query).fetchall()


@pytest.mark.parametrize(('kind', 'question'), ALL)
def test_both_languages_give_the_facts(kind, question):
  rng = np.random.default_rng(7)
  clear = 0
  for _ in range(40):
    cities = rng.permutation(CITIES.split())[:3].tolist()
    items = rng.permutation(ITEMS.split())[:5].tolist()
    rows = sql_questions.make_rows(rng, items, cities)
    p, i, c = int(rng.integers(20, 90)), items[0], cities[0]
    _, query, code = (x.format(p=p, i=i, c=c) for x in question)
    facts = gold_facts(rows, kind, query)
    if not facts:
      continue
    clear += 1
    assert list(map(str, executed(query, rows)[0])) == facts
    for value, fact in zip(printed(code, rows), facts, strict=True):
      assert grading.same(value, fact)
  assert clear >= 5  # so that something was compared


@pytest.mark.parametrize(
  ('kind', 'which', 'facts'),
  [
    ('mean', 0, ['12.5']),
    ('group', 0, ['Pisa']),
    ('group', 1, ['Oslo']),
    ('group', 2, ['cup']),
    ('open', 0, ['cup', '5', '4']),
    ('open', 1, ['2', '9', '36']),
  ],
)
def test_facts_by_hand(kind, which, facts):
  p = 4 if which != 1 and kind != 'open' else 6
  query = QUESTIONS[kind][which].query.format(p=p, i='pen', c='Pisa')
  assert gold_facts(ROWS, kind, query) == facts


def test_unclear_questions_give_no_facts():
  tie = ROWS | {'stock': [[1, 3, 8], [2, 3, 8]]}
  query = QUESTIONS['group'][0].query.format(i='pen')
  assert executed(query, tie)
  assert gold_facts(tie, 'group', query) == []
  thirds = ROWS | {'item': [[1, 'cup', 5], [2, 'hat', 20], [3, 'pen', 3]]}
  query = QUESTIONS['mean'][0].query.format(p=1)
  assert executed(query, thirds) == [(28 / 3,)]
  assert gold_facts(thirds, 'mean', query) == []
  count = QUESTIONS['count'][0].query
  assert gold_facts(ROWS, 'count', count.format(p=50)) == []  # 0
  assert gold_facts(ROWS, 'max', QUESTIONS['max'][0].query.format(p=1)) == []
  same = ROWS | {'stock': [[1, 1, 5]]}  # 5 cups at 5
  dearest = QUESTIONS['open'][0].query.format(p=6)
  assert executed(dearest, same) == [('cup', 5, 5)]
  assert gold_facts(same, 'open', dearest) == []


def test_every_question_names_what_it_is_about():
  """A text without a value would be in one split only."""
  for kind, question in ALL:
    fields = {x for x in 'pic' if f'{{{x}}}' in question.text}
    assert fields
    for text in (question.query, question.code):
      assert {x for x in 'pic' if f'{{{x}}}' in text} == fields, kind


def test_open_kinds_have_several_facts():
  for kind, question in ALL:
    query = question.query.format(p=6, i='pen', c='Pisa')
    assert (len(executed(query, ROWS)[0]) > 1) == (kind in OPEN)
