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
  best_item,
  item_of,
)
from tests.env.promises import refuses, replies

JUDGED = Recommendation(asks=0.5, novelty=1.5)
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


@pytest.mark.parametrize('family', [Recommendation(), JUDGED])
def test_demonstrations_have_the_value_of_the_expert_in_the_mean(family):
  scores, values = [], []
  for i, (task, messages, _) in enumerate(family.tasks('train', 60, 3)):
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


def test_nothing_is_asked_or_new_by_default(solved):
  assert Recommendation().columns == ('clicked', 'left', 'regret', 'progress')
  assert all(set(x.task) == {'taste', 'likes', 'forbids'} for x in solved)
  assert not any({'new', 'old'} & {*m.split()} for m in solved[0].demonstration)
  assert Recommendation(asks=0.1).columns[4:] == ('followed', 'relevant')
  assert Recommendation(novelty=0.1).columns[4:] == ('followed', 'factual')
  assert JUDGED.columns[4:] == ('followed', 'relevant', 'factual')
  with_words = TASK | {'new': ['mug']}
  (reply,) = replies(Recommendation().env(), with_words, ['blue mug new'])
  assert reply.info['regret'] == pytest.approx(sigmoid(3) - sigmoid(1.5))


JUDGED_TASK = TASK | {'asks': ['blue', '', 'hat'], 'new': ['mug', 'hat']}


@pytest.mark.parametrize(
  ('messages', 'want'),
  [
    # (followed, relevant, factual) of each turn; from the third on red is out
    (('blue mug new', 'red pen old', 'blue hat new'), '111 111 111'),
    (('red mug new', 'gray bag old', 'gray pen old'), '101 111 101'),
    (('blue pen new', 'red mug old', 'red hat new'), '110 110 011'),
    (('blue mug', 'blue mug new old', 'red bag'), '011 010 001'),
    (('blue', 'new', '<think>old</think>gray hat new'), '001 000 111'),
  ],
)
def test_dimensions_are_judged_apart(messages, want):
  family = Recommendation(leave=0.0, turns=3, asks=0.5, novelty=1.0)
  steps = replies(family.env(), JUDGED_TASK, messages)
  names = 'followed', 'relevant', 'factual'
  got = [''.join(f'{x.info[name]:.0f}' for name in names) for x in steps]
  assert ' '.join(got) == want


def test_the_user_says_what_is_new_and_asks():
  family = Recommendation(leave=0.0, turns=3, asks=0.5, novelty=1.0)
  env = family.env()
  assert env.reset(JUDGED_TASK, 0) == (
    'red blue green gray, mug pen hat bag, new mug hat. I like red, any blue?'
  )
  assert env.step('blue mug new').text in ('click', 'skip')
  assert env.step('?').text == f'{LOST}, no more red, any hat?'
  assert env.reset(JUDGED_TASK | {'likes': []}, 0).endswith('hat. any blue?')


def test_what_is_asked_for_is_no_forbidden_word():
  family = Recommendation(asks=0.7, instructions=1.0)
  asked = []
  for task, _, _ in family.tasks('train', 100, 0):
    assert len(task['asks']) == family.turns
    assert task['forbids']['word'] not in task['asks']
    asked += task['asks']
  share = sum(x != '' for x in asked) / len(asked)
  assert share == pytest.approx(0.7, abs=0.08)
  assert {*asked} == {'', *POPULARITY}


def test_a_lie_is_clicked_and_keeps_nobody():
  """More often than the truth; whoever clicked it leaves as after a skip."""
  task = JUDGED_TASK | {'new': ['hat', 'bag']}
  clicked, left = [], []
  for seed in range(1000):
    (reply,) = replies(JUDGED.env(), task, ['blue mug new'], seed)
    clicked.append(reply.info['clicked'])
    left.append(reply.info['left'])
  assert np.mean(clicked) == pytest.approx(sigmoid(1.5 + 1.5), abs=0.04)
  assert np.mean(left) == pytest.approx(JUDGED.leave, abs=0.06)
  best = sigmoid(0.5 + 1.5)  # a blue hat, which is new
  assert reply.info['regret'] == pytest.approx(best - sigmoid(3))
  (honest,) = replies(JUDGED.env(), task, ['blue mug old'], 0)
  assert honest.info['regret'] == pytest.approx(best - sigmoid(1.5))


def test_progress_adds_up_with_lies_too():
  words = [' '.join((*x, claim)) for x in ITEMS for claim in ('new', 'old')]
  for seed, (task, _, _) in enumerate(JUDGED.tasks('train', 30, 3)):
    rng = np.random.default_rng(seed)
    steps = replies(JUDGED.env(), task, rng.choice(words, 6).tolist(), seed)
    gained = steps[-1].score - JUDGED.expert_value(task)
    assert sum(x.info['progress'] for x in steps) == pytest.approx(gained)


def test_demonstrations_obey_and_are_true():
  for seed, (task, messages, _) in enumerate(JUDGED.tasks('train', 40, 1)):
    for x in replies(JUDGED.env(), task, messages, seed):
      assert (x.info['followed'], x.info['factual']) == (1, 1)


@pytest.mark.parametrize('share', [0.3, 1.0])
def test_some_demonstrated_messages_are_careless(share):
  """Which break every dimension now and then; the rest is the expert's."""
  family = Recommendation(asks=0.5, novelty=1.0, careless=share, leave=0.0)
  info, slipped = [], []
  for seed, (task, messages, _) in enumerate(family.tasks('train', 60, 1)):
    session = family.start(task)
    for x, slip in zip(messages, task['slips'], strict=True):
      item = best_item(session)
      assert x == (slip or ' '.join((*ITEMS[item], *session.truth(item))))
      session.show(item_of(x))
    slipped += [x != '' for x in task['slips']]
    info += [x.info for x in replies(family.env(), task, messages, seed)]
  assert np.mean(slipped) == pytest.approx(share, abs=0.08)
  for name in ('followed', 'relevant', 'factual'):
    of_slips = [x[name] for x, bad in zip(info, slipped, strict=True) if bad]
    assert 0.3 < np.mean(of_slips) < 0.8, name
  plain = Recommendation(careless=1.0).tasks('train', 5, 0)
  assert all(item_of(m) >= 0 for t in plain for m in t.demonstration)


def test_bad_settings():
  refuses(
    Recommendation,
    turns=(1,),
    leave=(1.5,),
    boredom=(-0.1,),
    instructions=(2.0,),
    spread=(-1.0,),
    hints=(3,),
    asks=(1.5,),
    novelty=(-1.0,),
    careless=(1.5,),
  )


@pytest.mark.parametrize('spread', [0.1, 0.7])
def test_tastes_spread_about_the_mean_user(spread):
  tasks = Recommendation(spread=spread).tasks('train', 400, 0)
  tastes = np.array([[*x.task['taste'].values()] for x in tasks])
  error = 4 * spread / 400**0.5 + 0.01
  np.testing.assert_allclose(tastes.mean(0), [*POPULARITY.values()], atol=error)
  np.testing.assert_allclose(tastes.std(0), spread, atol=error)
