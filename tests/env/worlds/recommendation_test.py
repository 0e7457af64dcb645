"""A user's chances and retention, exact and played; policies in their order."""

import itertools
import math

import numpy as np
import pytest

from agentrl.env.worlds.recommendation import (
  ITEMS,
  LOST,
  POPULARITY,
  Recommendation,
  item_of,
)
from tests.env.promises import refuses, replies

NEUTRAL = dict.fromkeys(POPULARITY, 0.0)
TASK = {
  'taste': NEUTRAL | {'red': 2.0, 'mug': 1.0, 'blue': 0.5},
  'likes': ['red'],
  'forbids': {'turn': 2, 'word': 'red'},
}


def sigmoid(x):
  return 1 / (1 + math.exp(-x))


@pytest.fixture(scope='module')
def solved():
  return list(Recommendation().tasks('train', 60, 3))


def test_chances_by_hand():
  session = Recommendation(boredom=0.5).start(TASK)
  red_mug, blue_mug, gray_bag = map(
    item_of, ('red mug', 'blue mug', 'gray bag')
  )
  assert session.chances[red_mug] == pytest.approx(sigmoid(3))
  assert session.chances[blue_mug] == pytest.approx(sigmoid(1.5))
  assert session.chances[gray_bag] == pytest.approx(0.5)
  session.show(red_mug)
  assert session.chances[red_mug] == pytest.approx(sigmoid(3) / 2)
  assert session.instruction == ''
  session.show(blue_mug)
  assert session.instruction == 'red'
  assert session.chances[red_mug] == 0
  session.show(blue_mug)
  assert session.chances[blue_mug] == pytest.approx(sigmoid(1.5) / 4)
  assert session.instruction == ''  # said once, meant from then on
  assert session.chances[item_of('red pen')] == 0


@pytest.mark.parametrize('boredom', [0.0, 0.6, 1.0])
def test_the_expert_is_optimal_without_instructions(boredom):
  """Against every sequence of items; clicks change no chance."""
  family = Recommendation(turns=3, boredom=boredom, instructions=0.0)
  for task, _, _ in family.tasks('train', 3, 0):
    values = []
    for items in itertools.product(range(len(ITEMS)), repeat=3):
      session, stays, total = family.start(task), 1.0, 0.0
      for item in items:
        stays *= 1 - family.leave * (1 - session.chances[item])
        total += stays
        session.show(item)
      values.append(total / 3)
    assert family.expert_value(task) == pytest.approx(max(values))


def test_demonstrations_have_the_value_of_the_expert_in_the_mean(solved):
  family = Recommendation()
  scores, values = [], []
  for i, (task, messages, _) in enumerate(solved):
    assert len(messages) == family.turns
    for seed in range(12):
      steps = replies(family.env(), task, messages, 100 * i + seed)
      assert all(x.info['regret'] == 0 and not x.invalid for x in steps)
      scores.append(steps[-1].score)
      values.append(family.expert_value(task))
  error = np.std(np.subtract(scores, values)) / math.sqrt(len(scores))
  assert np.mean(scores) == pytest.approx(np.mean(values), abs=4 * error)
  assert error < 0.03


def test_progress_adds_up_to_what_was_gained_over_the_expected(solved):
  family, rng = Recommendation(), np.random.default_rng(0)
  for seed, (task, _, _) in enumerate(solved):
    items = [' '.join(ITEMS[rng.integers(len(ITEMS))]) for _ in range(6)]
    items[seed % 6] = 'what?' if seed % 3 else items[seed % 6]
    steps = replies(family.env(), task, items, seed)
    gained = steps[-1].score - family.expert_value(task)
    assert sum(x.info['progress'] for x in steps) == pytest.approx(gained)
    assert sum(x.reward for x in steps) == pytest.approx(steps[-1].score)
    for x in steps:
      assert x.info['left'] + x.info['clicked'] <= 1
      assert x.reward == pytest.approx((1 - x.info['left']) / family.turns)
      assert x.done == (x is steps[-1])
      assert x.done or not x.score
      assert 0 <= x.info['regret'] <= 1
    assert steps[-1].info['left'] or len(steps) == family.turns


def test_clicks_and_leaves_have_their_chances():
  family = Recommendation(leave=0.4)
  clicked, left = [], []
  for seed in range(2000):
    (reply,) = replies(family.env(), TASK, ['blue mug'], seed)
    clicked.append(reply.info['clicked'])
    left.append(reply.info['left'])
  chance = sigmoid(1.5)
  assert np.mean(clicked) == pytest.approx(chance, abs=0.04)
  assert np.mean(left) == pytest.approx(0.4 * (1 - chance), abs=0.03)
  assert reply.info['regret'] == pytest.approx(sigmoid(3) - chance)


def test_what_the_user_says():
  family = Recommendation(leave=0.0)
  env = family.env()
  assert env.reset(TASK, 0) == (
    'red blue green gray, mug pen hat bag. I like red'
  )
  first = env.step('How about the red mug?')
  assert first.text in ('click', 'skip')
  second = env.step('no idea')
  assert second.invalid
  assert second.text == f'{LOST}, no more red'
  assert second.info['regret'] == pytest.approx(sigmoid(2))
  third = env.step('a red pen')
  assert (third.text, third.info['clicked']) == ('skip', 0)
  assert env.reset(TASK | {'likes': []}, 0).endswith('bag.')
  likes = env.reset(TASK | {'likes': ['red', 'mug']}, 0)
  assert likes.endswith('I like red mug')


def test_instructions_forbid_what_is_liked_best():
  family = Recommendation(instructions=1.0, hints=2)
  for task, messages, _ in family.tasks('train', 40, 0):
    turn, word = task['forbids']['turn'], task['forbids']['word']
    assert 1 <= turn < family.turns
    assert word in task['likes']
    assert not any(word in message for message in messages[turn:])
  none = Recommendation(instructions=0.0, hints=0).tasks('train', 20, 0)
  assert not any(t.task['forbids'] or t.task['likes'] for t in none)


@pytest.mark.parametrize(
  ('message', 'item'),
  [
    ('red mug', 0),
    ('the MUG, in red', 0),
    ('red red mug', 0),
    ('gray bag.', 15),
    ('red blue mug', -1),
    ('red', -1),
    ('redmug', -1),
    ('<think>blue pen</think>red mug', 0),
    ('<think>red mug', -1),
    ('', -1),
  ],
)
def test_items_in_messages(message, item):
  assert item_of(message) == item


def test_bad_settings():
  refuses(
    Recommendation,
    turns=(1,),
    leave=(1.5,),
    boredom=(-0.1,),
    instructions=(2.0,),
    spread=(-1.0,),
    hints=(3,),
  )


@pytest.mark.parametrize('spread', [0.1, 0.7])
def test_tastes_spread_about_the_mean_user(spread):
  tasks = Recommendation(spread=spread).tasks('train', 400, 0)
  tastes = np.array([[*x.task['taste'].values()] for x in tasks])
  error = 4 * spread / 400**0.5 + 0.01
  np.testing.assert_allclose(tastes.mean(0), [*POPULARITY.values()], atol=error)
  np.testing.assert_allclose(tastes.std(0), spread, atol=error)
