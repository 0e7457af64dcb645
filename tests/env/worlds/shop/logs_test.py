"""Predictions of logged actions, and the parts of their reward as columns."""

import re

import pytest

from agentrl.configs import envs, shop_r1
from agentrl.env import splits
from agentrl.env.worlds.shop import logs as logs_module
from agentrl.env.worlds.shop.action_forms import FORMS
from agentrl.env.worlds.shop.action_reward import ShopperAction
from agentrl.env.worlds.shop.logs import ShopLogs, recap
from agentrl.env.worlds.shop.shopper import LoggedAction
from agentrl.runtime import install
from agentrl.text import spans, tokenizer
from tests.env.promises import refuses, replies

PAGE = 'red mug\n[p1] arvo mug $9.50\n[p2] belto mug $7.00\n[next]'
TASK = {
  'goal': 'Buy mug: color red; for at most $8.',
  'steps': [
    {'page': PAGE, 'action': {'type': 'click', 'name': 'p2 belto mug'}},
    {
      'page': 'red mug > p2 belto mug\n[p2] belto mug $7.00\n[prev]',
      'action': {'type': 'type_and_submit', 'name': 'search', 'text': 'mug'},
    },
    {'page': 'mug\nNothing found.', 'action': {'type': 'terminate'}},
  ],
}


def logs(**fields):
  pytest.importorskip('bm25s', reason=install.command('host'))
  return ShopLogs(**fields)


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize(
  ('actions', 'rationales'), [(1, False), (3, False), (1, True)]
)
def test_demonstrations_are_exact(form, actions, rationales):
  family = logs(form=form, actions=actions, rationales=rationales)
  env = family.env()
  for task, messages, _ in family.tasks('train', 60, 5):
    for message, step in zip(messages, task['steps'], strict=True):
      thought = [x for x in spans.mark(message) if x.part == 'thought']
      assert len(thought) == rationales == (step['why'] in message)
    steps = replies(env, task, messages)
    assert len(steps) == actions == len(task['steps'])
    assert steps[-1].score == family.expert_value(task) == 1
    assert sum(x.reward for x in steps) == pytest.approx(1)
    assert all(x.info['exact'] == x.info['format'] == 1 for x in steps)
    assert [x.done for x in steps] == [False] * (actions - 1) + [True]


def test_shop_r1_begins_with_rationales_that_fit_into_messages():
  logs()
  c = shop_r1.get_config('tiny')
  for _, (message,), _ in envs.family(c).tasks('train', 40, 0):
    assert re.fullmatch(r'<think>.+</think>.+', message)
    ids = tokenizer.Embedded().encode(message)
    assert len(ids) < c.rollout.max_message_tokens


def test_the_paper_reward_is_a_weighted_sum_of_columns():
  family = logs(difficulty_scale=50.0)
  env = family.env()
  messages = {
    'click': ('click[p1 arvo mug]', 'click[belto]', 'click[]'),
    'type_and_submit': ('type_and_submit[search: mug]', 'type_and_submit[]'),
    'other': ('terminate[]', 'no'),
  }
  values = set()
  for task, _, _ in family.tasks('train', 80, 1):
    for message in (x for some in messages.values() for x in some):
      (reply,) = replies(env, task, [message])
      x = reply.info
      assert x['action_value'] == pytest.approx(
        0.3 * x['type_right']
        + 0.2 * x['attribute_present']
        + 0.1 * x['field_rouge']
        + 50 * (x['name_rouge'] + x['text_rouge'])
      )
      assert reply.reward == reply.score == x['exact']
      values.add(x['action_value'])
  assert len(values) >= 6


def test_a_walk_by_hand():
  env = ShopLogs().env()
  assert env.reset(TASK, 3) == PAGE
  first = env.step('Cheap. click[p1 belto mug]')
  assert first.text == TASK['steps'][1]['page']  # whatever was predicted
  assert not first.invalid
  assert first.info == {
    **{'format': 1, 'type_right': 1, 'attribute_present': 1, 'exact': 0},
    **{'name_rouge': pytest.approx(2 / 3), 'field_rouge': 0, 'text_rouge': 0},
    'action_value': pytest.approx(0.5 + 1000 * 2 / 3),
  }
  second = env.step('type_and_submit[box: mug]')
  assert second.info['action_value'] == pytest.approx(0.5 + 1000)
  assert (second.info['exact'], second.reward, second.score) == (0, 0, 0)
  last = env.step('terminate[]')
  assert last.done
  assert (last.reward, last.score) == (pytest.approx(1 / 3),) * 2
  assert last.info['action_value'] == pytest.approx(0.3)


def test_what_is_no_action_costs_its_turn():
  env = ShopLogs().env()
  reply, *_ = replies(env, TASK, ['I am not sure.'])
  assert reply.invalid
  assert reply.text == TASK['steps'][1]['page']
  assert not any(reply.info.values())


def test_a_threshold_drops_what_is_little_alike():
  env = ShopLogs(similarity=0.75).env()
  reply, *_ = replies(env, TASK, ['click[p1 belto mug]'])
  assert reply.info['name_rouge'] == 0
  assert reply.info['action_value'] == pytest.approx(0.5)


def test_splits_share_no_search_and_no_page():
  family = logs()
  pages, searches = {}, {}
  for split in splits.SPLITS:
    tasks = [t.task for t in family.tasks(split, 150, 0)]
    pages[split] = {t['steps'][0]['page'] for t in tasks}
    assert len(pages[split]) == 150
    searches[split] = {
      page.split('\n')[0].split(' > ')[0] for page in pages[split]
    }
  assert not pages['train'] & pages['test']
  assert not searches['train'] & searches['test']


def test_a_page_is_one_task_whatever_was_done_there():
  one, other = TASK | {'steps': TASK['steps'][:1]}, TASK
  assert logs_module._key(one, 'test') != logs_module._key(other, 'test')
  step = TASK['steps'][0] | {'action': {'type': 'terminate'}}
  again = TASK | {'steps': [step]}
  for split in splits.SPLITS:
    key = logs_module._key(one, split)
    assert key == logs_module._key(again, split)
    assert splits.split_of(key) == split


def test_an_observation_recalls_searches_and_the_latest_clicks():
  def logged(kind, name, text=''):
    return LoggedAction('', ShopperAction(kind, name, text), '')

  first = logged('type_and_submit', 'search', 'red mug')
  clicks = [logged('click', x) for x in ('next', 'p1 mug', 'prev')]
  again = logged('type_and_submit', 'search', 'mug')
  assert recap([first], 2) == 'red mug'
  assert recap([first, *clicks], 2) == 'red mug > p1 mug > prev'
  assert recap([first, *clicks], 0) == 'red mug'
  assert recap([first, *clicks], 9) == 'red mug > next > p1 mug > prev'
  assert recap([first, *clicks, again, clicks[0]], 2) == 'red mug > mug > next'


def test_teaching_shows_the_form():
  assert ShopLogs().system == ''
  assert 'click[' in ShopLogs(teach=True).system
  assert '"click"' in ShopLogs(teach=True, form='json').system


def test_bad_settings():
  refuses(
    ShopLogs,
    products=(0,),
    page=(0,),
    actions=(0,),
    history=(-1,),
    difficulty_scale=(-1.0,),
    similarity=(1.5,),
    form=('xml',),
  )
