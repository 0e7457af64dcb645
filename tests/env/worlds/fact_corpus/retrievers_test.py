"""Tools over a corpus of facts: what they show, and how often one lies."""

import re

import pytest

from agentrl.env.worlds.fact_corpus import retrievers
from agentrl.env.worlds.fact_corpus.corpus import RELATIONS, made
from agentrl.env.worlds.fact_corpus.retrievers import Liar, aggregated
from agentrl.runtime import install
from agentrl.tool.base import ToolError
from agentrl.tool.search import Index
from tests import errors
from tests.env.worlds.fact_corpus.reader import read

pytest.importorskip('bm25s', reason=install.command('host'))

CORPUS = made(100, 0.3, 1)
PLAIN = made(100)
NAMES = ('bm25', 'dense', 'graph')


def tool(name, corpus=PLAIN, most=1, lies=0.0):
  (made_tool,) = retrievers.tools(corpus, [name], most, lies)
  assert made_tool.name == name
  assert made_tool.description == retrievers.describe(name).description
  return made_tool


@pytest.mark.parametrize('name', NAMES)
def test_a_fact_is_the_first_result_of_its_words(name):
  search = tool(name)
  for (subject, relation), i in list(PLAIN.holds.items())[:80]:
    assert search(query=f'{subject} {relation}') == PLAIN.passages[i]


@pytest.mark.parametrize('name', ['bm25', 'dense'])
def test_both_sides_of_a_contradiction_are_before_what_denies(name):
  search = tool(name, CORPUS, 2)
  for subject, relation in list(CORPUS.older)[:40]:
    lines = search(query=f'{subject} {relation}').splitlines()
    facts = [CORPUS.facts[CORPUS.ids[x]] for x in lines]
    assert {x[:2] for x in facts} == {(subject, relation)}


@pytest.mark.parametrize('name', [*NAMES, 'liar'])
def test_as_many_passages_as_one_wants(name):
  search = tool(name, most=3)
  assert len(search(query=PLAIN.titles[0]).splitlines()) == 3
  assert search(query='') == search(query='?') == 'No passage.'


def test_bm25_is_that_of_the_search_tool():
  texts = [
    f'{title}\n{x}'
    for title, x in zip(PLAIN.titles, PLAIN.passages, strict=True)
  ]
  index, search = Index(texts), tool('bm25', most=4)
  for query in (*PLAIN.titles[:20], 'home mayor', 'age'):
    want = [PLAIN.passages[i] for i in index.best(query, 4)]
    assert search(query=query).splitlines() == want


class InOrder:
  """A ranking that puts the passages of facts first, whatever the query is."""

  def __init__(self, corpus=PLAIN):
    self._facts = sorted(corpus.facts)

  def best(self, query, most):
    return self._facts[:most]


@pytest.mark.parametrize('rate', [0.0, 0.3, 1.0])
def test_the_rate_of_lies(rate):
  most, queries = 50, 60
  liar = Liar(PLAIN, InOrder(), most, rate)
  lines = [
    x for i in range(queries) for x in liar(query=f'query {i}').splitlines()
  ]
  assert len(lines) == most * queries
  share = sum(x not in PLAIN.ids for x in lines) / len(lines)
  assert abs(share - rate) <= 4 * (rate * (1 - rate) / len(lines)) ** 0.5


def test_lies_are_those_of_the_query():
  liar = Liar(PLAIN, InOrder(), 40, 0.5)
  first = liar(query='Bako home')
  assert Liar(PLAIN, InOrder(), 40, 0.5)(query=' bako  HOME ') == first
  others = {liar(query=f'bako {i}') for i in range(10)}
  assert len(others) == 10


def test_a_lie_is_another_object_of_the_kind():
  liar = Liar(CORPUS, InOrder(CORPUS), len(CORPUS.facts), 1.0)
  lines = liar(query='x').splitlines()
  for i, line in zip(sorted(CORPUS.facts), lines, strict=True):
    fact = CORPUS.facts[i]
    ((subject, relation), (object,)) = *read([line]), *read([line]).values()
    assert (subject, relation) == fact[:2]
    assert line not in CORPUS.ids
    assert object != fact.object
    kind = RELATIONS[CORPUS.entities[subject].kind][relation]
    if kind != 'number':
      assert CORPUS.entities[object].kind == kind
    # All else is as in the true passage.
    assert line == re.sub(r'\w+\.$', f'{object}.', CORPUS.passages[i])


def test_sets_by_brute_force():
  count_tool = tool('aggregate', CORPUS)
  facts = read(CORPUS.passages)
  relations = ('home', 'friend', 'mayor', 'host', 'site', 'feast')
  nonempty = 0
  for name in CORPUS.entities:
    for relation in relations:
      members = [
        s for (s, r), x in facts.items() if (r, x[-1]) == (relation, name)
      ]
      ages = [int(facts[s, 'age'][-1]) for s in members if (s, 'age') in facts]
      answer = count_tool(query=f'count {relation} {name}')
      assert answer == f'count {relation} {name}: {len(members)}'
      answer = count_tool(query=f'max age {relation} {name.upper()}')
      assert answer.endswith(f': {max(ages, default="none")}')
      _, places = aggregated(CORPUS, f'max age {relation} {name}')
      assert len(places) == len(set(places)) == len(members) + len(ages)
      nonempty += bool(ages)
  assert nonempty > 20


@pytest.mark.parametrize(
  'query',
  ['', 'count', 'sum home Tebu', 'count home Zzzz', 'count house {}', 'max {}'],
)
def test_no_set(query):
  name = next(iter(PLAIN.entities))
  with errors.raises(ToolError, 'count home Tebu') as error:
    tool('aggregate')(query=query.format(name))
  assert error.value.kind == 'arguments'


def test_without_bm25s_it_says_how_to_get_it(monkeypatch):
  def gone(*_):
    raise ImportError('No module named bm25s')

  monkeypatch.setattr(retrievers, 'Index', gone)
  for name in ('bm25', 'liar'):
    with pytest.raises(ValueError, match=r'\[host\]'):
      tool(name)
  tool('dense')
