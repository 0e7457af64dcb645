"""Goods of the shop: the published score by hand, bad lines of a file."""

import json

import pytest

from agentrl.env.worlds.shop import catalogue
from agentrl.env.worlds.shop.catalogue import Product, kind_factor, points
from tests import errors
from tests.env.worlds.shop.goods import CATALOGUE, GOAL


@pytest.fixture(scope='module')
def goods():
  return {x.id: x for x in catalogue.read(CATALOGUE)}


@pytest.mark.parametrize(
  ('id', 'chosen', 'worth'),
  [
    ('b1', {'color': 'red', 'size': 'big'}, 1.0),
    ('b1', {'color': 'red', 'size': 'small'}, 4 / 5),
    ('b1', {}, 3 / 5),
    # Too dear, not recycled; 'mug' is one of the four words wanted: t = 1/4.
    ('b2', {'color': 'red', 'size': 'big'}, 3 / 5),
    # No word in common.
    ('b3', {'color': 'red'}, 0.0),
  ],
)
def test_points(goods, id, chosen, worth):
  assert points(goods[id], chosen, GOAL) == pytest.approx(worth)


def test_an_attribute_also_counts_where_it_is_told(goods):
  goal = GOAL | {'attributes': ['easy to clean'], 'options': {}, 'most': 20}
  assert points(goods['b2'], {}, goal) == 1
  assert points(goods['b1'], {}, goal) == 1 / 2


@pytest.mark.parametrize(
  ('title', 'category', 'query', 'factor'),
  [
    ('one', 'x › y', '', 0.5),  # a tenth of the words, nothing else
    ('one', 'a › y', '', 0.5),  # one part in common is too few
    ('one', 'b › a', '', 1.0),
    ('one', '', 'q', 1.0),
    ('one two', '', '', 0.5),  # a fifth is not more than a fifth
    ('one two three', '', '', 1.0),
    ('the Three, ONE-two', '', '', 1.0),
    ('none', 'a › b', 'q', 0.0),
  ],
)
def test_kind_factor(title, category, query, factor):
  wanted = 'one two three four five six seven eight nine ten'
  goal = {'title': wanted, 'category': 'a › b', 'query': 'q'}
  assert kind_factor(Product('p', title, 1.0, category, query), goal) == factor


def test_kind_factor_of_very_little_and_of_no_words():
  wanted = ' '.join(f'w{i}' for i in range(11))
  goal = {'title': wanted, 'category': '', 'query': ''}
  assert kind_factor(Product('p', 'w1', 1.0, ''), goal) == 0.1
  # Neither title nor category nor a query that both lack says it is the kind.
  goal = {'title': 'the', 'category': '', 'query': ''}
  assert kind_factor(Product('p', 'w1', 1.0, ''), goal) == 0.5


@pytest.mark.parametrize(
  'line',
  [
    '{"id": "a", "title": "t", "category": "c"}',
    '{"id": "a", "title": "t", "price": 1, "category": "c", "x": 1}',
    '{"id": "a", "title": 3, "price": 1, "category": "c"}',
    '{"id": 3, "title": "t", "price": 1, "category": "c"}',
    '{"id": "a", "title": "t", "price": NaN, "category": "c"}',
    '{"id": "a", "title": "t", "price": -1, "category": "c"}',
    '{"id": "next", "title": "t", "price": 1, "category": "c"}',
    '{"id": "a]", "title": "t", "price": 1, "category": "c"}',
    '{"id": "a", "title": "t", "price": 1, "category": "c", "options": {"x":'
    ' ["y"], "z": ["Y"]}}',
    '{"id": "a", "title": "t", "price": 1, "category": "c", "options": {"x":'
    ' ["buy now"]}}',
    '[]',
  ],
)
def test_bad_lines(tmp_path, line):
  file = tmp_path / 'goods.jsonl'
  file.write_text(line)
  with errors.raises(ValueError, 'goods.jsonl:1'):
    catalogue.read(str(file))


def test_ids_differ(tmp_path):
  file = tmp_path / 'goods.jsonl'
  line = '{"id": "a", "title": "t", "price": 1, "category": "c"}\n'
  file.write_text(line + line.replace('"a"', '"A"'))
  with pytest.raises(ValueError):
    catalogue.read(str(file))


def test_products_that_are_made_up_are_as_they_say():
  goods = catalogue.made(200)
  assert catalogue.made(50) == goods[:50]
  assert len({x.id for x in goods}) == 200
  lines = (json.dumps(x._asdict()) for x in goods)
  assert [catalogue._product(json.loads(line)) for line in lines] == [*goods]
  sized = sum('size' in x.options for x in goods)
  assert 70 < sized < 130  # a half: four deviations
  for x in goods:
    assert 5 <= x.price < 100
    assert (len(set(x.attributes)), len(set(x.options['color']))) == (3, 3)
    assert len(set(x.options.get('size', 'ab'))) == 2
    assert x.title.endswith(f' {x.query}, {", ".join(x.attributes[:2])}')
    assert x.category.endswith(f' › {x.query}')
    assert all(word in x.description for word in (x.query, *x.attributes))
    assert points(x, {}, {'attributes': x.attributes, **bought(x)}) == 1


def bought(x: Product) -> dict:
  """The rest of a goal that a product meets without any option."""
  at = {'title': x.title, 'category': x.category, 'query': x.query}
  return {'options': {}, 'most': x.price, **at}
