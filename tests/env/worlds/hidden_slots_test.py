"""Hidden slots: what the user says, what is paid, and what a task is worth."""

import contextlib
import functools
import itertools
import json
import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env import base, splits, task_sampling, tool_env, user_frame
from agentrl.env.worlds.hidden_slots import (
  SLOTS,
  HiddenSlots,
  optimal_value,
  scripted,
)
from agentrl.text.message import Message
from tests import errors
from tests.env.promises import play, refuses, replies

TASK = {
  'wants': [['colour', 'red'], ['size', 'big'], ['day', 'mon']],
  'hidden': ['day', 'size'],
  'mood': 1,
}
CALM = {'refusal': 0.0, 'revision': 0.0}
MOODY = {'refusal': 0.3, 'revision': 0.5}


def env_of(family, user=scripted):
  return base.with_services(family, {'user': user}).env()


def total(steps, column):
  return sum(step.info[column] for step in steps)


def test_slots_share_no_value():
  values = [x for values in SLOTS.values() for x in values]
  assert len(set(values) | set(SLOTS)) == len(values) + len(SLOTS)
  assert all(user_frame.words(x) == [x] for x in (*values, *SLOTS))


@pytest.mark.parametrize('chance', [0.5, 1.0])
def test_who_confirms_asks_about_what_is_given_first(chance):
  family = HiddenSlots(confirm=chance, **CALM)
  env, needless, given = env_of(family), 0, 0
  for task, messages, _ in family.tasks('train', 60, 0):
    steps = replies(env, task, messages)
    assert steps[-1].score == 1
    assert len(steps) == len(messages)
    flags = [step.info['needless_questions'] for step in steps]
    assert flags == sorted(flags, reverse=True)
    asked = [x.removesuffix('?') for x in messages[:-1]]
    assert len(set(asked)) == len(asked)
    assert set(task['hidden']) <= set(asked)
    needless += sum(flags)
    given += len(task['wants']) - len(task['hidden'])
  share = needless / given
  assert share == 1 if chance == 1 else 0.35 < share < 0.65


@settings(max_examples=25, deadline=None)
@given(
  st.sampled_from([0.0, 0.2, 0.5]),
  st.sampled_from([0.0, 0.5, 1.0]),
  st.integers(0, 99),
  st.sampled_from(splits.SPLITS),
)
def test_demonstrations_solve_their_tasks(refusal, revision, seed, split):
  family = HiddenSlots(refusal=refusal, revision=revision)
  env, missing = env_of(family), 0
  for task, messages, _ in family.tasks(split, 20, seed):
    assert json.loads(json.dumps(task)) == task
    missing += not messages
    if not messages:
      continue
    text, *steps = play(env, task, messages, seed)
    assert len(steps) == len(messages) <= family.patience + 1
    assert (steps[-1].done, steps[-1].score) == (True, 1.0)
    assert steps[-1].info['slots_right'] == 1
    assert not any(step.invalid for step in steps)
    assert all(set(step.info) == set(family.columns) for step in steps)
    assert total(steps, 'premature_acts') <= (refusal > 0)  # a lucky guess
    assert total(steps, 'needed_questions') <= len(task['hidden'])
    assert total(steps, 'needless_questions') == 0
    assert text.count('?') == len(task['hidden'])
  assert missing <= (20 if refusal == 0.5 else 4 if refusal else 0)


def read(text):
  """Slots and latest values that a reader of observations finds."""
  pairs = zip(text.split()[::2], text.split()[1::2], strict=True)
  return {slot: value for slot, value in pairs if value != '?'}


@settings(max_examples=40, deadline=None)
@given(
  st.integers(0, 999),
  st.lists(st.sampled_from(TASK['wants']), min_size=9, max_size=30),
)
def test_the_latest_statement_holds(seed, order):
  """A reader that keeps the last value of each slot is always right."""
  family = HiddenSlots(**MOODY, patience=99)
  env = env_of(family)
  task = TASK | {'mood': seed}
  values = read(env.reset(task, 0))
  questions = [slot for slot, _ in order] + ['day', 'size'] * 20
  for slot in questions:
    reply, _, changed = env.step(f'{slot}?').text.partition(', ')
    if reply != 'not now':
      values[slot] = reply
    if changed:
      other, now, value = changed.split()
      assert now == 'now'
      assert other in values  # only what the agent has been given
      assert other != slot
      assert value != values[other]
      values[other] = value
  answer = tool_env.answer_message(' '.join(values.values()))
  last = env.step(answer)
  assert (last.score, last.info['slots_right']) == (1, 1)


@settings(max_examples=40, deadline=None)
@given(
  st.integers(0, 999), st.lists(st.sampled_from(sorted(SLOTS)), max_size=9)
)
def test_nothing_is_revealed_that_was_not_asked_for(mood, questions):
  family = HiddenSlots(**MOODY, kinds=6, slots=6, hidden=6, patience=20)
  wants = [[slot, values[0]] for slot, values in SLOTS.items()]
  task = {'wants': wants, 'hidden': sorted(SLOTS)[:4], 'mood': mood}
  env = env_of(family)
  texts, open_ = [env.reset(task, 0)], set(task['hidden'])
  texts += [env.step('what do you want?').text, env.step('').text]
  for slot in questions:
    texts.append(env.step(f'{slot}?').text)
    open_.discard(slot)
  words = {word for text in texts for word in user_frame.words(text)}
  secrets = {value for slot in open_ for value in SLOTS[slot]}
  assert not words & secrets


def test_refusals_and_changes_come_at_their_rates():
  family = HiddenSlots(**MOODY, patience=50)
  env, steps = env_of(family), []
  for mood in range(60):
    steps += replies(env, TASK | {'mood': mood}, ['colour?'] + ['day?'] * 49)
  n = len(steps)
  for column, rate in (('refused', 0.3), ('revised', 0.5)):
    error = math.sqrt(rate * (1 - rate) / n)
    # A first question for the colour leaves nothing else to be changed.
    assert abs(total(steps, column) / n - rate) < 4 * error + 0.02


def test_every_change_of_mind_comes():
  env = env_of(HiddenSlots(refusal=0.0, revision=1.0))
  task = TASK | {'hidden': ['day']}
  changes = {
    replies(env, task | {'mood': mood}, ['day?'])[0].text.removeprefix('mon, ')
    for mood in range(200)
  }
  assert changes == {
    f'{slot} now {value}'
    for slot in ('colour', 'size')
    for value in SLOTS[slot][1:4]
  }


def test_the_mood_goes_by_the_number_of_the_question():
  """Whatever was asked before."""
  env = env_of(HiddenSlots(refusal=0.5, revision=0.5, patience=20))
  for mood in range(10):
    task = TASK | {'mood': mood}
    one = replies(env, task, ['day?'] * 20)
    other = replies(env, task, ['size?', 'hm', 'colour?', 'day?'] * 6)
    refusals = [
      [x.info['refused'] for x in steps if x.info['questions']][:18]
      for steps in (one, other)
    ]
    assert refusals[0] == refusals[1]
    assert 0 < sum(refusals[0]) < 18


def test_the_mood_is_of_the_task_and_not_of_the_seed():
  family = HiddenSlots(**MOODY, patience=9)
  env, questions = env_of(family), ['day?', 'size?', 'day?'] * 3
  one = play(env, TASK, questions, 1)
  assert one == play(env, TASK, questions, 2)
  others = [play(env, TASK | {'mood': i}, questions) for i in range(9)]
  assert any(one != other for other in others)


@settings(max_examples=60, deadline=None)
@given(
  st.integers(0, 999),
  st.lists(st.sampled_from(['colour?', 'size?', 'day?', 'hm']), max_size=12),
)
def test_each_slot_is_paid_once(mood, messages):
  env = env_of(HiddenSlots(**MOODY, patience=20))
  steps = replies(env, TASK | {'mood': mood}, messages)
  for slot in ('colour', 'size', 'day'):
    of_slot = [
      step for m, step in zip(messages, steps, strict=True) if m == f'{slot}?'
    ]
    paid = total(of_slot, 'needed_questions')
    assert paid == (slot != 'colour' and bool(of_slot))
    given = slot == 'colour'
    for step in of_slot:
      assert step.info['needless_questions'] == given
      given = given or not step.info['refused']
  assert total(steps, 'questions') == sum(m != 'hm' for m in messages)
  assert sum(step.invalid for step in steps) == messages.count('hm')
  missing = {'size', 'day'}
  for message, step in zip(messages, steps, strict=True):
    if not step.info['refused']:
      missing.discard(message[:-1])
  assert total(steps, 'learned') == 1 - len(missing) / 2


def test_odd_spelling_of_a_user_is_understood():
  def polite(messages, *, seed):
    return f'Hmm... {scripted(messages, seed=seed).upper()}!! Is that all?'

  family = HiddenSlots(**MOODY)
  for task, messages, _ in family.tasks('train', 30, 0):
    plain = replies(env_of(family), task, messages)
    odd = replies(env_of(family, polite), task, messages)
    assert [x.info for x in odd] == [x.info for x in plain]
    assert [x.score for x in odd] == [x.score for x in plain]


def test_what_a_user_lets_slip_need_not_be_asked_for():
  family = HiddenSlots(**CALM)
  env = env_of(family, lambda messages, *, seed: 'A Big one, on mon.')
  env.reset(TASK, 0)
  first, second = env.step('size?'), env.step('day?')
  assert (first.info['learned'], first.info['needed_questions']) == (1, 1)
  assert second.info['needless_questions'] == 1


def test_a_change_that_is_not_said_leaves_its_slot_missing():
  family = HiddenSlots(refusal=0.0, revision=1.0)
  env = env_of(family, lambda messages, *, seed: 'on mon')
  env.reset(TASK, 0)
  step = env.step('day?')  # colour was given, and is another now
  assert (step.info['revised'], step.info['learned']) == (1, 0)
  again = env.step('colour?')
  assert (again.info['needed_questions'], again.info['refused']) == (1, 1)


@pytest.mark.parametrize(
  ('answer', 'score', 'right'),
  [
    ('red big mon', 1, 1),
    ('MON, Red; big.', 1, 1),
    ('red big', 0, 2 / 3),
    ('red big mon tue', 0, 2 / 3),
    ('blue small tue', 0, 0),
    ('', 0, 0),
  ],
)
def test_answers_name_every_value_once(answer, score, right):
  env = env_of(HiddenSlots(**CALM))
  for questions in ([], ['size?', 'day?']):
    replies(env, TASK, questions)
    step = env.step(tool_env.answer_message(answer))
    assert (step.score, step.reward, step.done) == (score, score, True)
    assert step.info['slots_right'] == pytest.approx(right)
    assert step.info['premature_acts'] == (not questions)


def brute_force(missing, patience, values, refusal, cost):
  """The best of all rules (missing, patience) -> ask or guess, by simulation.

  Every rule meets every sequence of refusals, with its probability.
  """
  states = list(
    itertools.product(range(1, missing + 1), range(1, patience + 1))
  )
  sequences = list(itertools.product((False, True), repeat=patience))
  best = -math.inf
  for rule in itertools.product((False, True), repeat=len(states)):
    asks = {s for s, ask in zip(states, rule, strict=True) if ask}
    value = 0.0
    for refusals in sequences:
      k, spent = missing, 0.0
      for i, refused in enumerate(refusals):
        if (k, patience - i) not in asks:
          break
        spent += cost
        k -= not refused
      chance = math.prod(refusal if x else 1 - refusal for x in refusals)
      value += chance * (values**-k - spent)
    best = max(best, value)
  return best


@pytest.mark.parametrize('values', [2, 4])
@pytest.mark.parametrize('refusal', [0.0, 0.3, 0.8])
@pytest.mark.parametrize('cost', [0.0, 0.1, 0.4])
def test_the_value_is_that_of_the_best_rule(values, refusal, cost):
  for missing, patience in itertools.product(range(3), range(4)):
    value = optimal_value(
      missing, patience, values=values, refusal=refusal, cost=cost
    )
    expected = brute_force(missing, patience, values, refusal, cost)
    assert value == pytest.approx(expected, abs=1e-12)


def test_the_expert_earns_the_value_on_average():
  family = HiddenSlots(refusal=0.4, revision=0.3, patience=3)
  env, off = env_of(family), []
  for task, *_ in family.tasks('train', 700, 1):
    env.reset(task, 0)
    earned, done = 0.0, False
    while not done:
      step = env.step(env.expert())
      earned, done = earned + step.reward, step.done
    off.append(earned - family.expert_value(task))
  error = statistics.stdev(off) / math.sqrt(len(off))
  assert abs(statistics.mean(off)) < 4 * error


def test_splits_share_no_request():
  family = HiddenSlots(**MOODY)
  requests = {
    split: {
      task_sampling.key({x: task[x] for x in ('wants', 'hidden')})
      for task, *_ in family.tasks(split, 150, 0)
    }
    for split in splits.SPLITS
  }
  assert not requests['train'] & requests['test']


def test_a_calm_family_has_no_moods_and_each_request_once():
  family, requests = HiddenSlots(**CALM, kinds=2, slots=2, options=3), []
  for split, share in (('train', 0.8), ('test', 0.2)):
    with contextlib.suppress(ValueError):  # there are fewer
      for task, *_ in family.tasks(split, 999, 0):
        assert task['mood'] == 0
        requests.append((split, task_sampling.key(task)))
    count = sum(x == split for x, _ in requests)
    assert abs(count / 54 - share) < 0.2
  assert len({key for _, key in requests}) == 2 * 3**2 * 3  # all there are


def test_the_scripted_user():
  system = Message('system', 'You want size big. Go.')
  say = functools.partial(scripted, seed=0)
  assert say([system, Message('user', 'day?')]) == 'Ask one thing.'
  assert say([system, Message('user', 'Your size?')]) == 'big'


def test_bad_settings():
  refuses(
    HiddenSlots,
    kinds=(1,),
    slots=(5,),
    hidden=(4,),
    options=(7,),
    refusal=(1.0,),
    revision=(-0.1,),
    patience=(0,),
    impatient=('leave',),
    question_cost=(-1.0,),
  )
  with errors.raises(ValueError, 'slots 5 kinds 4'):
    HiddenSlots(slots=5)
  with errors.raises(ValueError, 'hidden 4 slots 3'):
    HiddenSlots(hidden=4)
