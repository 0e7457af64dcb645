"""Templates of questions about tables, in SQL and in Python."""

import contextlib
import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from agentrl.env.worlds import sql_questions
from agentrl.env.worlds.sql_questions import JOIN
from agentrl.text import grading


class TableQuestion(NamedTuple):
  """A question about {p}, a price, {i}, an item, or {c}, a city."""

  text: str
  query: str  # gold SQL: one row, which holds the facts of the answer
  code: str  # the same in Python


# kind -> the Python of each template of `sql_questions`.
_CODE = {
  'count': (
    'print(sum(x[2]>{p} for x in item))',
    'print(sum(x[2]<{p} for x in item))',
  ),
  'sum': (
    'print(sum(p for i,n,p in item if p>{p}))',
    'print(sum(p for i,n,p in item if p<{p}))',
  ),
  'max': (
    'print(max((p,n)for i,n,p in item if p<{p})[1])',
    'print(min((p,n)for i,n,p in item if p>{p})[1])',
  ),
  'join': (
    "print(sum(n for s,i,n in stock if shop[s-1][1]=='{c}' and"
    " item[i-1][1]=='{i}'))",
    "print(sum(n*item[i-1][2]for s,i,n in stock if shop[s-1][1]=='{c}'))",
    "print(max(item[i-1][2]for s,i,n in stock if shop[s-1][1]=='{c}'))",
  ),
}
_MORE = {
  'mean': (
    TableQuestion(
      'What do items over {p} cost on average?',
      'SELECT avg(price) FROM item WHERE price>{p}',
      'x=[p for i,n,p in item if p>{p}]\nprint(sum(x)/len(x))',
    ),
    TableQuestion(
      'What do items under {p} cost on average?',
      'SELECT avg(price) FROM item WHERE price<{p}',
      'x=[p for i,n,p in item if p<{p}]\nprint(sum(x)/len(x))',
    ),
  ),
  'group': (
    TableQuestion(
      'Which city holds most {i}s?',
      f"SELECT city{JOIN} WHERE name='{{i}}' GROUP BY city"
      ' ORDER BY sum(n) DESC LIMIT 1',
      "print(max((n,shop[s-1][1])for s,i,n in stock if item[i-1][1]=='{i}')"
      '[1])',
    ),
    TableQuestion(
      'Which city holds most pieces under {p}?',
      f'SELECT city{JOIN} WHERE price<{{p}} GROUP BY city'
      ' ORDER BY sum(n) DESC LIMIT 1',
      'print(max((sum(n for s,i,n in stock if s==k and item[i-1][2]<{p}),c)'
      'for k,c in shop)[1])',
    ),
    TableQuestion(
      'Which item over {p} is most in stock?',
      f'SELECT name{JOIN} WHERE price>{{p}} GROUP BY name'
      ' ORDER BY sum(n) DESC LIMIT 1',
      'print(max((sum(n for s,j,n in stock if j==i),a)'
      'for i,a,p in item if p>{p})[1])',
    ),
  ),
  'open': (
    TableQuestion(
      'Describe the dearest item under {p}.',
      'SELECT name,price,sum(n) FROM item LEFT JOIN stock ON item.id=stock.item'
      ' WHERE price<{p} GROUP BY item.id ORDER BY price DESC LIMIT 1',
      'p,a,i=max((p,a,i)for i,a,p in item if p<{p})\n'
      'print(a,p,sum(n for s,j,n in stock if j==i))',
    ),
    TableQuestion(
      'Describe the stock of {c}.',
      f"SELECT count(*),sum(n),sum(n*price){JOIN} WHERE city='{{c}}'",
      "x=[(n,item[i-1][2])for s,i,n in stock if shop[s-1][1]=='{c}']\n"
      'print(len(x),sum(n for n,p in x),sum(n*p for n,p in x))',
    ),
  ),
}
QUESTIONS: dict[str, tuple[TableQuestion, ...]] = {
  kind: tuple(
    TableQuestion(*pair, code)
    for pair, code in zip(sql_questions.TEMPLATES[kind], codes, strict=True)
  )
  for kind, codes in _CODE.items()
} | _MORE
OPEN = ('open',)  # kinds that are graded by a criterion
_HUNDREDTHS = 100  # a mean that is asked for is a whole number of these


def gold_facts(rows: Mapping[str, list], kind: str, gold: str) -> list[str]:
  """Returns the values of a gold query; [] where they make no clear question.

  There is none with an answer of nothing, 0 or two equal facts, a tie of
  groups, or a mean of more than two decimals.
  """
  # A tie of groups is broken by the order of their names: try both.
  orders = [gold.replace(' LIMIT', f',1{x} LIMIT') for x in ('', ' DESC')]
  with contextlib.closing(sqlite3.connect(':memory:')) as connection:
    sql_questions.fill(connection, rows)
    facts = list(map(str, connection.execute(gold).fetchone() or ()))
    tops = [
      sql_questions.result(connection, query)
      for query in orders
      if kind == 'group'
    ]
  if (
    len(set(tops)) > 1
    or {'None', '0'} & set(facts)
    or len(set(facts)) < len(facts)
  ):
    return []
  if kind == 'mean' and (grading.number(facts[0]) or 0) * _HUNDREDTHS % 1:
    return []
  return facts
