"""The frame of questions: who hears what, what is paid, when it is enough."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.configs import envs
from agentrl.env import base, user_frame
from agentrl.env.base import Step
from agentrl.env.user_frame import LOST, SILENT, UserEnv
from agentrl.env.worlds import consultation, hidden_slots
from agentrl.text import tokenizer
from agentrl.text.message import Message

TOPICS = ('size', 'day')


class Lamp:
  """Two topics, each worth half; a topic is needed until it was answered."""

  text = 'lamp'
  topics = TOPICS

  def __init__(self, task):
    self.open = {*TOPICS}

  def value(self, patience):
    return 1 - len(self.open) / 4 - (patience == 0) * len(self.open) / 8

  def expert(self, patience):
    return f'{min(self.open)}?' if self.open else '<answer>on</answer>'

  def needs(self, topic, patience):
    return topic in self.open

  def prepare(self, topic):
    return f'Say {topic}.'

  def record(self, topic, reply):
    if topic in reply:
      self.open -= {topic}
    return {'refused': float(topic not in reply)}

  def act(self, message):
    if message == 'shake':
      return user_frame.OrderedAct('it rattles', -0.5, {'shakes': 1.0})
    return None

  def judge(self, answer):
    score = float(answer == 'on')
    return user_frame.Ending(score, score - 0.25, {'shakes': 2.0})


def echo(messages, *, seed):
  return messages[0].content


def env_of(user=echo, patience=3, impatient='leaves', cost=0.1):
  columns = (*user_frame.COLUMNS, 'shakes')
  manner = user_frame.Manner(patience, impatient, cost)
  return UserEnv(user, Lamp, columns, manner)


@pytest.mark.parametrize(
  ('message', 'topic'),
  [
    ('size?', 'size'),
    ('ask size ?', 'size'),
    ('Great. What SIZE would you like?', 'size'),
    ('The day is fri! And the size, please?', 'size'),
    ('size? size?', 'size'),
    ('size', None),
    ('size or day?', None),
    ('size? day?', None),
    ('sized?', None),
    ('size. why?', None),
    ('?', None),
    ('', None),
  ],
)
def test_a_question_names_one_topic(message, topic):
  assert user_frame.find_topic(message, TOPICS) == topic


@pytest.mark.parametrize(
  ('reply', 'word'),
  [
    ('yes', 'yes'),
    ('  YES, I do.', 'yes'),
    ('"No!"', 'no'),
    ('nothing', None),
    ('well, yes', None),
    ('', None),
  ],
)
def test_replies_begin_with_yes_or_no(reply, word):
  assert user_frame.yes_or_no(reply) == word


def test_the_newest_secret_stands_before_all_that_was_said():
  seen, seeds = [], []

  def user(messages, *, seed):
    seen.append(messages)
    seeds.append(seed)
    return f'reply {len(seen)}'

  dialogue = user_frame.Dialogue(user, random.Random(3))
  assert [dialogue.ask(f's{i}', f'm{i}') for i in range(3)] == [
    'reply 1',
    'reply 2',
    'reply 3',
  ]
  assert seen[2] == (
    Message('system', 's2'),
    Message('user', 'm0'),
    Message('assistant', 'reply 1'),
    Message('user', 'm1'),
    Message('assistant', 'reply 2'),
    Message('user', 'm2'),
  )
  assert len(set(seeds)) == 3
  assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_topic_is_paid_once_and_needless_only_when_answered():
  replies = iter(['no', 'size', 'size', 'day'])
  env = env_of(lambda messages, *, seed: next(replies), patience=4)
  env.reset({}, 0)
  infos = [env.step(m).info for m in ('size?', 'size?', 'size?', 'day?')]
  names = ('needed_questions', 'needless_questions', 'refused', 'patience')
  assert [tuple(info[x] for x in names) for info in infos] == [
    (1, 0, 1, 3),
    (0, 0, 0, 2),  # refused before: neither paid again nor needless
    (0, 1, 0, 1),
    (1, 0, 0, 0),
  ]


@pytest.mark.parametrize('impatient', user_frame.IMPATIENT)
def test_patience_ends(impatient):
  calls = []

  def user(messages, *, seed):
    calls.append(messages)
    return echo(messages, seed=seed)

  env = env_of(user, patience=2, impatient=impatient)
  env.reset({}, 0)
  for left in (1, 0):
    step = env.step('size?')
    assert (step.done, step.reward, step.info['patience']) == (
      False,
      -0.1,
      left,
    )
  step = env.step('day?')
  info = {x: step.info[x] for x in ('questions', 'refused', 'patience')}
  assert info == {'questions': 1, 'refused': 1, 'patience': 0}
  assert step.info['needless_questions'] == 1
  assert len(calls) == 2  # the user is left alone
  if impatient == 'leaves':
    assert (step.done, step.score, step.reward) == (True, 0, 0)
  else:
    assert step[:3] == (SILENT, -0.1, False)
    assert env.step('<answer>on</answer>').score == 1


def test_what_is_no_question_leaves_the_user_alone():
  env = env_of(user=None)
  assert env.reset({}, 0) == 'lamp'
  assert env.step('hello')[:1] == (LOST,)
  step = env.step('size or day?')
  assert (step.invalid, step.reward, step.done) == (True, 0, False)
  assert set(step.info) == {*user_frame.COLUMNS, 'shakes'}
  assert not any(step.info[x] for x in step.info if x != 'patience')
  act = env.step('<think>size?</think>shake')
  assert act[:3] == ('it rattles', -0.5, False)
  assert act.info['shakes'] == 1
  end = env.step('<answer>on</answer>')
  assert (end.score, end.reward, end.done, end.info['shakes']) == (
    1,
    0.75,
    True,
    2,
  )


def test_the_user_does_not_hear_thoughts():
  seen = []

  def user(messages, *, seed):
    seen.append([x.content for x in messages[1:]])
    return 'x'

  env = env_of(user)
  for _ in range(2):  # nor what was said in the last task
    env.reset({}, 0)
    env.step('<think>Is the day fri?</think>\nsize?')
  assert seen == [['size?'], ['size?']]


@settings(max_examples=100, deadline=None)
@given(
  st.lists(st.sampled_from(['size?', 'day?', 'x', 'shake']), max_size=6),
  st.booleans(),
  st.integers(1, 4),
)
def test_progress_adds_up(messages, silent, patience):
  """To what the last turn earned less the value at the beginning."""
  env = env_of(patience=patience, impatient=user_frame.IMPATIENT[silent])
  env.reset({}, 0)
  start = Lamp({}).value(patience)
  total = 0.0
  for message in (*messages, '<answer>on</answer>'):
    step = env.step(message)
    total += step.info['progress']
    if step.done:
      break
  assert total == pytest.approx(step.reward - start)


def test_demonstrations_are_those_that_solve():
  assert user_frame.demonstration(env_of(), {}) == (
    'day?',
    'size?',
    '<answer>on</answer>',
  )
  deaf = env_of(lambda messages, *, seed: 'no', patience=2)
  assert user_frame.demonstration(deaf, {}) == ()  # it leaves


@pytest.mark.parametrize('world', [hidden_slots, consultation])
def test_the_shipped_sizes_hold_all_demonstrations(world):
  """Messages, turns and observations fit, so that none is cut."""
  name = world.__name__.rpartition('.')[2]
  sizes = envs.OWN[name]
  rollout, most = sizes['rollout'], sizes['host']['max_observation_tokens']
  encode = tokenizer.Embedded().encode
  family = base.with_services(base.find(name)(), {'user': world.scripted})
  env = family.env()
  for task, messages, _ in family.tasks('train', 300, 1):
    assert len(messages) <= rollout['max_turns']
    steps = [Step(env.reset(task, 0)), *map(env.step, messages)]
    assert max(len(encode(x.text)) for x in steps) <= most
    lengths = [len(encode(x)) + 1 for x in messages]
    assert max(lengths, default=0) <= rollout['max_message_tokens']
