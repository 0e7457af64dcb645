"""The interview: what is asked, what is answered, and who answers."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env import base
from agentrl.env.worlds.interview import Interview, halves, truthful
from agentrl.text.message import Message
from tests import errors
from tests.env.promises import refuses

TASK = {'numbers': [3, 8, 15, 21], 'secret': 8}


def env_of(user=truthful, **fields):
  return base.with_services(Interview(**fields), {'user': user}).env()


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(1, 999), min_size=2, max_size=20), st.data())
def test_questions_leave_one_number(numbers, data):
  """Read by Python itself."""
  numbers = sorted(numbers)
  secret = data.draw(st.sampled_from(numbers))
  asked, left = halves(numbers, secret), numbers
  for question in asked:
    bound = int(question.removeprefix('below ').removesuffix('?'))
    left = [n for n in left if (n < bound) == (secret < bound)]
  assert left == [secret]
  assert len(asked) <= math.ceil(math.log2(len(numbers)))


@pytest.mark.parametrize(
  ('question', 'answer', 'invalid'),
  [
    ('below 15?', 'yes', False),
    ('below 8?', 'no', False),
    ('Above 7 ?', 'yes', False),
    ('above 8?', 'no', False),
    ('8?', 'yes', False),
    ('is it 3?', 'no', False),
    ('below 15', 'Ask yes or no.', True),
    ('below ²?', 'Ask yes or no.', True),
    ('which?', 'Ask yes or no.', True),
    ('', 'Ask yes or no.', True),
    ('You have chosen the number 3.', 'Ask yes or no.', True),
    ('<answer>8</answer><answer>8</answer>', 'Ask yes or no.', True),
  ],
)
def test_answers_are_true(question, answer, invalid):
  env = env_of()
  assert env.reset(TASK, 0) == '3 8 15 21'
  reply = env.step(question)
  assert (reply.text, reply.invalid, reply.done) == (answer, invalid, False)
  assert reply.info == {'asked': 1.0, 'yes': float(answer == 'yes')}


def test_noise_turns_its_share_of_answers_and_nothing_else():
  def heard(noise, seed):
    env = env_of(noise=noise)
    env.reset(TASK, seed)
    return [env.step('below 15?').text for _ in range(20)]

  turned = [x == 'no' for seed in range(50) for x in heard(0.25, seed)]
  assert 0.2 < sum(turned) / 1000 < 0.3  # ± 3.6 standard errors
  assert heard(0.25, 1) == heard(0.25, 1) != heard(0.25, 2)
  assert heard(0.0, 1) == ['yes'] * 20


def test_the_user_hears_what_it_said_itself():
  """Not what noise made of it, and the secret first."""
  seen, seeds = [], []

  def user(messages, *, seed):
    seen.append(messages)
    seeds.append(seed)
    return 'Yes, I think so.'

  env = env_of(user, noise=0.5)
  env.reset(TASK, 5)
  texts = [env.step(f'{i}?').text for i in range(8)]
  assert set(texts) == {'Yes, I think so.', 'no'}
  assert 'number 8.' in seen[-1][0].content
  assert seen[-1][1:3] == (
    Message('user', '0?'),
    Message('assistant', 'Yes, I think so.'),
  )
  assert len(set(seeds)) == 8
  assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_family_that_asks_says_so():
  family = Interview()
  with errors.raises(ValueError, 'user'):
    base.with_services(family, {'judge': truthful})
  served = base.with_services(family, {'user': truthful})
  assert base.needs(served) == ()
  assert (served.columns, served.worker) == (family.columns, 'thread')
  assert (served.name(), served.system) == (family.name(), '')
  plain = base.find('countdown')()
  assert base.needs(plain) == ()
  assert base.with_services(plain, {}) is plain


def test_bad_settings():
  refuses(Interview, numbers=(1,), noise=(0.6, -0.1))
  with errors.raises(ValueError, 'numbers 9 largest 8'):
    Interview(numbers=9, largest=8)
