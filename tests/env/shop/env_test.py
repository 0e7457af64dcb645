"""The shop page by page, and the published score by hand."""

import json
import pathlib

import pytest

from agentrl import install
from agentrl.env.shop import catalogue
from agentrl.env.shop.catalogue import Product, kind_factor, points
from agentrl.env.shop.env import Shop

CATALOGUE = str(
  pathlib.Path(__file__).parents[1] / 'host_files/catalogue.jsonl'
)
GOAL = {
  'id': 'b1', 'title': 'Arvo mug, hand made',
  'category': 'home › kitchen › mug', 'query': 'mug',
  'attributes': ['hand made', 'recycled'],
  'options': {'color': 'red', 'size': 'big'}, 'most': 10,
}  # fmt: skip


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


def test_made_up_goods_can_be_clicked():
  goods = catalogue.made(200)
  assert len({x.id for x in goods}) == 200
  assert goods[:50] == catalogue.made(50)
  lines = (json.dumps(x._asdict()) for x in goods)
  assert [catalogue._product(json.loads(line)) for line in lines] == [*goods]


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
  with pytest.raises(
    ValueError, match=r'goods.jsonl:1 cannot be used.*; write'
  ):
    catalogue.read(str(file))


def test_ids_differ(tmp_path):
  file = tmp_path / 'goods.jsonl'
  line = '{"id": "a", "title": "t", "price": 1, "category": "c"}\n'
  file.write_text(line + line.replace('"a"', '"A"'))
  with pytest.raises(ValueError, match='two products of one id'):
    catalogue.read(str(file))


@pytest.fixture(scope='module')
def env():
  pytest.importorskip('bm25s', reason=install.command('host'))
  return Shop(CATALOGUE, page=1).env()


def test_a_walk_through_the_shop(env):
  first = env.reset(GOAL, 0)
  assert first == (
    'Buy mug: hand made, recycled; color red, size big; for at most $10.\n'
    'Write search[words].'
  )
  found = env.step('I look. search[mug hand made]').text
  assert found == '[b1] Arvo mug, hand made $9.50\n[next] [back]'
  assert env.step('click[next]').text == '[b2] Belto mug $12.00\n[prev] [back]'
  assert env.step('click[B1]').invalid  # not on this page
  assert env.step('click[next]').invalid  # the bowl is no mug
  assert env.step('click[prev]').text == found
  page = env.step('click[b1]').text
  assert page == (
    '[b1] Arvo mug, hand made $9.50\ncolor: [red] [blue]\nsize: [big] [small]\n'
    '[buy now] [description] [prev] [back]'
  )
  said = env.step('click[description]').text
  assert said == f'A mug of clay.\n{page}'
  assert '[blue] (chosen)' in env.step('click[blue]').text
  reply = env.step('click[Red]')
  assert '[red] (chosen) [blue]\n' in reply.text
  bought = env.step('click[buy now]')
  assert bought.done
  assert bought.reward == bought.facts['points'] == pytest.approx(4 / 5)
  assert bought.score == 0


@pytest.mark.parametrize(
  ('message', 'says'),
  [
    ('a mug', 'Write one action'),
    ('search[mug] click[b1]', 'Write one action'),
    ('<think>search[mug]', 'Write one action'),
    ('click[b1]', 'There is no [b1] here.'),
    ('click[buy now]', 'There is no [buy now] here.'),
    ('click[next]', 'There is no [next] here.'),
    ('click[prev]', 'There is no [prev] here.'),
  ],
)
def test_what_does_nothing_is_invalid(env, message, says):
  env.reset(GOAL, 0)
  reply = env.step(message)
  assert reply.text.startswith(says)
  assert reply.text.endswith('Write search[words].')
  assert reply.invalid
  assert not reply.done


def test_searches_start_anew(env):
  env.reset(GOAL, 0)
  assert env.step('search[zzz]').text == 'Nothing found.\n[back]'
  assert env.step('search[]').text == 'Nothing found.\n[back]'
  env.step('search[mug]')
  env.step('click[next]')
  assert 'chair' in env.step('search[garden]').text
  assert env.step('click[back]').text == 'Write search[words].'


@pytest.mark.parametrize('field', ['products', 'page', 'attributes'])
def test_bad_settings(field):
  with pytest.raises(ValueError, match=f'{field}=0 leaves no task'):
    Shop(**{field: 0})


def test_a_catalogue_that_is_not_there():
  with pytest.raises(ValueError, match=r'gone.jsonl cannot be read'):
    Shop('gone.jsonl').name()
