"""The shop page by page, and the published score by hand."""

import pytest

from agentrl.env.worlds.shop.env import Shop
from agentrl.runtime import install
from tests import errors
from tests.env.promises import refuses
from tests.env.worlds.shop.goods import CATALOGUE, GOAL


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
  assert bought.reward == bought.info['points'] == pytest.approx(4 / 5)
  assert bought.score == 0


@pytest.mark.parametrize(
  ('message', 'says'),
  [
    ('a mug', 'Write one action'),
    ('search[mug] click[b1]', 'Write one action'),
    ('<think>search[mug]', 'Write one action'),
    ('click[b1]', '[b1] is not on this page.'),
    ('click[buy now]', '[buy now] is not on this page.'),
    ('click[next]', '[next] is not on this page.'),
    ('click[prev]', '[prev] is not on this page.'),
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


def test_a_catalogue_that_is_not_there():
  with errors.raises(ValueError, 'gone.jsonl'):
    Shop('gone.jsonl').name()


def test_bad_settings():
  refuses(Shop, products=(0,), page=(0,), attributes=(0,))
