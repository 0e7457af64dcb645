"""Event streams: chances of needs, the optimal policy's value, F1 of offers."""

import dataclasses
import itertools

import numpy as np
import pytest

from agentrl.env.worlds import event_stream
from agentrl.env.worlds.event_stream import (
  EVENTS,
  LOST,
  NONE,
  EventStream,
  habits,
)
from agentrl.text.grading import f1_of_counts
from tests.env.promises import refuses

FAMILY = EventStream()
SMALL = EventStream(events=2, needs=2, turns=2, needy=0.5, table=2)


def play(family, task, messages):
  env = family.env()
  first = env.reset(task, 0)
  assert first == EVENTS[task['events'][0]]
  steps = [env.step(message) for message in messages]
  assert [x.done for x in steps] == [False] * (family.turns - 1) + [True]
  return steps


def earned(family, task, messages):
  return sum(step.reward for step in play(family, task, messages))


@pytest.fixture(scope='module')
def solved():
  return list(FAMILY.tasks('train', 200, 1))


def test_habits_are_chances():
  chance = habits(EventStream(events=8, needs=4, certain=0.8, stray=0.2))
  assert chance.shape == (9, 8, 4)
  kinds = {tuple(sorted(x)) for x in chance.reshape(-1, 4).tolist()}
  assert kinds == {(0, 0, 0, 0.8), (0.05, 0.05, 0.05, 0.05)}
  likely = np.mean(chance.max(-1) > 0.5)
  assert 0.25 < likely < 0.55  # 0.4 of 72 pairs
  assert np.array_equal(chance, habits(EventStream(8, 4, 6, 0.4, 0.8, 0.2)))


def every_stream(family, events):
  """Each assignment of needs to the turns, with its chance."""
  kinds = [*range(family.needs), NONE]
  for needs in itertools.product(kinds, repeat=family.turns):
    chance = 1.0
    for t, need in enumerate(needs):
      before = events[t - 1] if t else family.events
      row = habits(family)[before, events[t]]
      chance *= 1 - row.sum() if need == NONE else row[need]
    yield {'events': list(events), 'needs': list(needs)}, chance


@pytest.mark.parametrize('disturbance', [0.0, 0.5, 20.0])
def test_the_expert_is_the_best_of_all_policies(disturbance):
  """Of all sequences of offers, in the environment, needs by their chances.

  An answer tells nothing of later needs, so that no policy that hears them is
  better than such a sequence.
  """
  family = dataclasses.replace(SMALL, disturbance=disturbance)
  said = [*map(event_stream.write, range(family.needs)), 'wait']
  values = []
  for events in itertools.product(range(2), repeat=2):
    streams = list(every_stream(family, events))
    assert sum(p for _, p in streams) == pytest.approx(1)
    means = {
      messages: sum(p * earned(family, task, messages) for task, p in streams)
      for messages in itertools.product(said, repeat=2)
    }
    value = family.expert_value({'events': events})
    assert value == pytest.approx(max(means.values()))
    offers = (family.best_offer(events, t) for t in range(2))
    assert means[tuple(map(event_stream.write, offers))] == pytest.approx(value)
    values.append(value)
  assert (len(set(values)) > 1) == (disturbance < 9)  # else: wait


def test_needs_come_as_often_as_their_chance(solved):
  chance, seen = habits(FAMILY), {}
  for task, *_ in solved:
    for t, need in enumerate(task['needs']):
      before = task['events'][t - 1] if t else FAMILY.events
      seen.setdefault((before, task['events'][t]), []).append(need)
  for pair, needs in seen.items():
    for k in range(FAMILY.needs):
      p = chance[pair][k]
      error = (p * (1 - p) / len(needs)) ** 0.5
      assert abs(needs.count(k) / len(needs) - p) <= 4.5 * error


def test_demonstrations_have_the_expected_value(solved):
  off = [
    earned(FAMILY, x.task, x.demonstration) - FAMILY.expert_value(x.task)
    for x in solved
  ]
  assert abs(np.mean(off)) < 4 * np.std(off) / len(off) ** 0.5
  for task, messages, _ in solved[:20]:
    steps = play(FAMILY, task, messages)
    assert not any(x.invalid for x in steps)
    assert all(x.info['progress'] == 0 for x in steps)


def test_offers_by_hand():
  family = EventStream(turns=4, disturbance=0.5)
  task = {'events': [0, 1, 2, 3], 'needs': [0, 1, NONE, 0]}
  steps = play(
    family, task, ['Offer SORT!', 'offer sort', 'sort?', 'offer copy']
  )
  texts = ['yes, file', 'no, note', f'{LOST}, page', '']
  assert [x.text for x in steps] == texts
  assert [x.reward for x in steps] == [0.25, -0.125, 0, -0.125]
  assert [x.invalid for x in steps] == [False, False, True, False]
  counts = [[x.info[k] for x in steps] for k in FAMILY.columns[:3]]
  assert counts == [[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 0, 1]]
  assert [x.score for x in steps] == [0, 0, 0, pytest.approx(2 / 6)]


def test_progress_is_what_the_optimal_policy_would_have_more():
  family = dataclasses.replace(SMALL, disturbance=0.5)
  for events in itertools.product(range(2), repeat=2):
    task = {'events': list(events), 'needs': [NONE] * 2}
    for messages in itertools.product(['wait', 'offer sort', '?'], repeat=2):
      steps = play(family, task, messages)
      for t, (message, step) in enumerate(zip(messages, steps, strict=True)):
        before = events[t - 1] if t else 2
        p = habits(family)[before, events[t]].tolist()
        gain = [x - 0.5 * (1 - x) for x in p]
        now = gain[0] if 'sort' in message else 0.0
        want = (now - max(*gain, 0.0)) / 2
        assert step.info['progress'] == pytest.approx(want)


@pytest.mark.parametrize(
  ('counts', 'score'),
  [((0, 0, 0), 1), ((2, 0, 0), 0), ((0, 0, 3), 0), ((3, 3, 3), 1)],
)
def test_f1_of_extremes(counts, score):
  assert f1_of_counts(*counts) == score


@pytest.mark.parametrize(
  ('message', 'offer'),
  [
    ('wait', NONE),
    ('Wait.', NONE),
    ('offer copy', 1),
    ('offer send', None),  # of more needs
    ('offer sort copy', None),
    ('offer', None),
    ('wait, offer sort', None),
    ('<think>offer copy</think>wait', NONE),
    ('', None),
  ],
)
def test_messages(message, offer):
  assert event_stream.read(message, 2) == offer


def test_the_system_text_states_the_habits():
  assert FAMILY.system == ''
  text = EventStream(teach=True).system
  chance = habits(FAMILY)
  assert text.count('After ') == np.sum(chance.max(-1) == 0.9)
  assert 'After nothing, ' in text
  assert '90%' in text


def test_bad_settings():
  refuses(
    EventStream,
    events=(9,),
    needs=(0,),
    certain=(1.5,),
    disturbance=(-0.1,),
    table=(-1,),
  )
