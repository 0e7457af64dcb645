"""A user's chances and retention, exact and played; policies in their order."""

import dataclasses
import itertools
import json
import math
import pickle

import numpy as np
import pytest

from agentrl.env import splits
from agentrl.env.worlds.recommendation import (
  ITEMS,
  LOST,
  POPULARITY,
  Recommendation,
  best_item,
  item_of,
)
from tests import errors
from tests.env.promises import HOSTILE

NEUTRAL = dict.fromkeys(POPULARITY, 0.0)
TASK = {
  'taste': NEUTRAL | {'red': 2.0, 'mug': 1.0, 'blue': 0.5},
  'likes': ['red'],
  'forbids': {'turn': 2, 'word': 'red'},
}


def sigmoid(x):
  return 1 / (1 + math.exp(-x))


def played(family, task, messages, seed):
  env = family.env()
  env.reset(task, seed)
  out = []
  for message in messages:
    out.append(env.step(message))
    if out[-1].done:
      break
  return out


@pytest.fixture(scope='module')
def solved():
  return list(Recommendation().tasks('train', 120, 3))


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


def test_value_by_hand():
  family = Recommendation(turns=2, leave=0.4, boredom=0.5)
  free = TASK | {'forbids': {}}
  first = 1 - 0.4 * (1 - sigmoid(3))  # a red mug, which bores then
  second = 1 - 0.4 * (1 - sigmoid(2))  # so another red one
  value = first + first * second
  assert family.expert_value(free) == pytest.approx(value / 2)


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


def test_foresight_of_an_instruction_is_worth_little():
  """The optimum that knows when it comes, by dynamic programming."""
  family = Recommendation(turns=3, instructions=1.0)
  for task, _, _ in family.tasks('train', 4, 1):

    def best(items, task=task):
      session = family.start(task)
      for item in items:
        session.show(item)
      if session.turn == family.turns:
        return 0.0
      stays = 1 - family.leave * (1 - session.chances)
      top = np.argsort(-session.chances)[:6]  # of 16, for speed
      return max(stays[i] * (1 + best((*items, i))) for i in top)

    optimum = best(()) / 3
    assert family.expert_value(task) <= optimum + 1e-12
    assert family.expert_value(task) >= optimum - 0.05


def test_demonstrations_have_the_value_of_the_expert_in_the_mean(solved):
  family = Recommendation()
  scores, values = [], []
  for i, (task, messages, _) in enumerate(solved):
    assert len(messages) == family.turns
    for seed in range(12):
      replies = played(family, task, messages, 100 * i + seed)
      assert all(x.info['regret'] == 0 and not x.invalid for x in replies)
      scores.append(replies[-1].score)
      values.append(family.expert_value(task))
  error = np.std(np.subtract(scores, values)) / math.sqrt(len(scores))
  assert np.mean(scores) == pytest.approx(np.mean(values), abs=4 * error)
  assert error < 0.02


def test_demonstrations_solve_where_nobody_leaves(solved):
  family = Recommendation(leave=0.0)
  for task, messages, _ in solved[:30]:
    replies = played(family, task, messages, 0)
    assert (len(replies), replies[-1].score) == (family.turns, 1)
    assert family.expert_value(task) == 1


def test_progress_adds_up_to_what_was_gained_over_the_expected(solved):
  family, rng = Recommendation(), np.random.default_rng(0)
  for seed, (task, _, _) in enumerate(solved[:60]):
    items = [' '.join(ITEMS[rng.integers(len(ITEMS))]) for _ in range(6)]
    items[seed % 6] = 'what?' if seed % 3 else items[seed % 6]
    replies = played(family, task, items, seed)
    gained = replies[-1].score - family.expert_value(task)
    assert sum(x.info['progress'] for x in replies) == pytest.approx(gained)
    assert sum(x.reward for x in replies) == pytest.approx(replies[-1].score)
    for x in replies:
      assert x.info['left'] + x.info['clicked'] <= 1
      assert x.reward == pytest.approx((1 - x.info['left']) / family.turns)
      assert x.done == (x is replies[-1])
      assert 0 <= x.info['regret'] <= 1
    assert replies[-1].info['left'] or len(replies) == family.turns


def test_clicks_and_leaves_have_their_chances():
  family = Recommendation(leave=0.4)
  clicked, left = [], []
  for seed in range(4000):
    (reply,) = played(family, TASK, ['blue mug'], seed)
    clicked.append(reply.info['clicked'])
    left.append(reply.info['left'])
  chance = sigmoid(1.5)
  assert np.mean(clicked) == pytest.approx(chance, abs=0.03)
  assert np.mean(left) == pytest.approx(0.4 * (1 - chance), abs=0.03)
  assert reply.info['regret'] == pytest.approx(sigmoid(3) - chance)


def popular_item(session):
  """The item that the mean user clicks most, bored by what was shown."""
  worth = [POPULARITY[color] + POPULARITY[kind] for color, kind in ITEMS]
  return int((session.boredom / (1 + np.exp(-np.array(worth)))).argmax())


@pytest.mark.parametrize('fields', [{}, {'spread': 0.7}, {'leave': 0.7}])
def test_expert_beats_popularity_beats_random(fields):
  family = Recommendation(**fields)
  means = np.zeros(3)
  rng = np.random.default_rng(1)
  policies = (best_item, popular_item, lambda _: int(rng.integers(len(ITEMS))))
  for seed in range(4):
    tasks = [t.task for t in family.tasks('test', 80, seed)]
    values = np.array(
      [[family.start(task).value(p) for p in policies] for task in tasks]
    )
    # A user who instructs may be better served by accident.
    free = [not task['forbids'] for task in tasks]
    assert (values[free, 0] >= values[free].max(1) - 1e-12).all()
    means += values.mean(0) / (4 * family.turns)
  expert, popular, uniform = means
  assert expert > popular + 0.04
  assert popular > uniform + 0.04


def test_popular_items_are_those_of_the_mean_user():
  family = Recommendation(spread=0.0, instructions=0.0)
  (task,) = (t.task for t in family.tasks('train', 1, 0))
  session = family.start(task)
  assert session.value(popular_item) == session.value(best_item)


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


def test_it_is_a_function_of_task_seed_and_messages(solved):
  family = Recommendation()
  same = pickle.loads(pickle.dumps(family))
  assert list(same.tasks('train', 120, 3)) == solved
  for task, messages, _ in solved[:20]:
    again = json.loads(json.dumps(task))
    assert played(family, task, messages, 5) == played(same, again, messages, 5)


def test_splits_share_nothing():
  keys = {
    split: {t.key for s in (0, 1) for t in Recommendation().tasks(split, 40, s)}
    for split in splits.SPLITS
  }
  for split, some in keys.items():
    assert len(some) == 80
    assert {splits.split_of(key) for key in some} == {split}


def test_no_message_breaks_it(solved):
  family = Recommendation(leave=0.0)
  for message in HOSTILE:
    (reply,) = played(family, solved[0].task, [message], 0)
    assert (reply.invalid, reply.done, reply.score) == (True, False, 0)
    assert set(reply.info) == set(family.columns)


OTHER = {
  **{'turns': 5, 'leave': 0.1, 'boredom': 1.0, 'spread': 2.0},
  **{'instructions': 1.0, 'hints': 2, 'teach': True},
}


def test_a_name_tells_settings_apart():
  family = Recommendation()
  assert set(OTHER) == {x.name for x in dataclasses.fields(family)}
  names = {
    dataclasses.replace(family, **{name: x}).name() for name, x in OTHER.items()
  }
  assert len(names | {family.name()}) == len(OTHER) + 1
  assert family.system == ''
  assert 'red mug' in Recommendation(teach=True).system


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'turns': 1}, 'turns 1 2 64'),
    ({'leave': 1.5}, 'leave 1.5 0 1'),
    ({'boredom': -0.1}, 'boredom -0.1'),
    ({'instructions': 2.0}, 'instructions 2.0'),
    ({'spread': -1.0}, 'spread -1.0'),
    ({'hints': 3}, 'hints 3 0 2'),
  ],
)
def test_bad_settings(fields, match):
  with errors.raises(ValueError, match):
    Recommendation(**fields)
