"""Itineraries: rules against plain loops, the expert, tries and feedback."""

import itertools

import pytest

from agentrl.env import splits
from agentrl.env.worlds import itinerary
from agentrl.env.worlds.itinerary import LOST, NAMES, RULES, Itinerary
from tests import errors
from tests.env.promises import refuses, replies

TASK = {
  'kind': ['park', 'zoo', 'zoo', 'cafe'],
  'price': [5, 3, 4, 2],
  'position': [2, 7, 4, 5],
  'days': 3,
  'budget': 12,
  'reach': 3,
  'see': ['park', 'zoo'],
  'broken': [],
}
TEXT = """3 days, budget 12, reach 3, see park zoo
A park 5 @2
B zoo 3 @7
C zoo 4 @4
D cafe 2 @5"""


def plain(task, names):
  """The rules again, one place after the other."""
  wrong, spent, seen, before = set(), 0, [], None
  for name in names:
    i = NAMES.index(name)
    if name in seen:
      wrong.add('distinct')
    seen.append(name)
    spent += task['price'][i]
    if before is not None:
      step = task['position'][i] - task['position'][before]
      if step > task['reach'] or -step > task['reach']:
        wrong.add('reach')
    before = i
  if spent > task['budget']:
    wrong.add('budget')
  for kind in task['see']:
    if not any(task['kind'][NAMES.index(name)] == kind for name in seen):
      wrong.add('kinds')
  return wrong


@pytest.fixture(scope='module')
def solved():
  return list(Itinerary().tasks('train', 12, 3))


def test_rules_are_those_of_plain_loops(solved):
  told = set()
  for task, *_ in solved:
    for plan in itinerary.all_plans(task):
      rules = itinerary.broken(task, plan)
      assert set(rules) == plain(task, [NAMES[i] for i in plan])
      assert list(rules) == [x for x in RULES if x in rules]
      told.add(rules)
  assert len(told) > 10  # of 16


def test_the_expert_is_the_cheapest_that_keeps_to_all_rules(solved):
  for task, (message,), _ in solved:
    plan = itinerary.read(message, task)
    rest = [
      x
      for x in itertools.permutations(range(6), 3)
      if not plain(task, [NAMES[i] for i in x])
    ]
    assert plan in rest
    costs = [itinerary.cost(task, x) for x in rest]
    assert itinerary.cost(task, plan) == min(costs)
    share = len(rest) / 6**3
    assert Itinerary().random_value(task) == pytest.approx(share)
    assert 0 < share <= 0.2
    assert Itinerary().expert_value(task) == 1


def test_what_it_says():
  assert itinerary.describe(TASK, feedback=False) == TEXT
  assert itinerary.describe(TASK, feedback=True) == f'{TEXT}\nbroken: none'
  bad = TASK | {'broken': ['budget', 'reach'], 'see': []}
  text = itinerary.describe(bad, feedback=True).splitlines()
  assert (text[0], text[-1]) == (
    '3 days, budget 12, reach 3',
    'broken: budget reach',
  )


def test_a_plan_may_be_tried_again():
  env = Itinerary(tries=3).env()
  first, lost, last = replies(env, TASK, ['B A D', 'A C', 'D C A.'])
  assert (first.text, first.done, first.score) == ('broken: reach', False, 0)
  assert first.info == {
    **{'distinct': 1, 'budget': 1, 'kinds': 1, 'reach': 0},
    **{'pass_rate': 0.75, 'mistake': 1, 'progress': 0.75},
  }
  assert (lost.text, lost.invalid, lost.done) == (LOST, True, False)
  assert (last.done, last.score, last.reward) == (True, 1, 1)
  assert (last.info['progress'], last.info['mistake']) == (0.25, 0)
  assert lost.info['mistake'] == 1
  (once,) = replies(Itinerary().env(), TASK, ['B A D'])
  assert (once.text, once.done, once.score) == ('', True, 0)
  (mute,) = replies(Itinerary().env(), TASK, ['nowhere'])
  assert (mute.done, mute.invalid, mute.score) == (True, True, 0)


@pytest.mark.parametrize(
  'message', ['A B', 'A B C D', 'A B E', 'a b c', '<think>A C D', '']
)
def test_no_plan(message):
  assert itinerary.read(message, TASK) is None


def test_feedback_states_what_the_demonstration_breaks():
  family = Itinerary(feedback=True, flawed=0.5)
  flawed = 0
  for task, (message,), _ in family.tasks('train', 60, 0):
    plan = itinerary.read(message, task)
    assert list(itinerary.broken(task, plan)) == task['broken']
    assert 'plan' not in task
    (step,) = replies(family.env(), task, [message])
    assert step.score == 1
    if task['broken']:
      flawed += 1
      best = itinerary.write(itinerary.cheapest(task))
      assert replies(family.env(), task, [best])[0].score == 0
  assert 15 < flawed < 40
  held_out = list(family.tasks('test', 30, 0))
  assert not any(task['broken'] for task, *_ in held_out)
  assert all(splits.split_of(x.key) == 'test' for x in held_out)


def test_a_refined_demonstration_is_a_mistake_and_its_correction(solved):
  family = Itinerary(tries=2, demonstrate='refined')
  refined = list(family.tasks('train', 12, 3))
  for (task, messages, _), best in zip(refined, solved, strict=True):
    assert (task, messages[1:]) == best[:2]
    first, last = replies(family.env(), task, messages)
    assert (first.info['mistake'], first.done, first.score) == (1, False, 0)
    assert first.text != LOST
    assert (last.info['mistake'], last.done, last.score) == (0, True, 1)
  assert refined == list(family.tasks('train', 12, 3))


def test_bad_settings():
  refuses(Itinerary, places=(9,), tries=(0,), slack=(-1,), days=(7,))
  for fields, words in (
    ({'kinds': 2, 'wanted': 3}, 'wanted 3 kinds 2'),
    ({'demonstrate': 'refined'}, 'tries 2 1'),
    ({'flawed': 0.5}, 'feedback True'),
    ({'flawed': 1.5, 'feedback': True}, 'flawed 1.5'),
  ):
    with errors.raises(ValueError, words):
      Itinerary(**fields)
