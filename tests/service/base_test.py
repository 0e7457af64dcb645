"""Services that are functions: found, checked, counted, remembered."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl.service.base import (
  CountedService,
  Function,
  ServiceFault,
  with_system_text,
)
from agentrl.text.message import Message
from tests import errors

HERE = __name__
NUMBER = 3


def echo(messages, *, seed):
  return f'{messages[-1].content} {seed}'


def wordless(messages, *, seed):
  return len(messages)


def broken(messages, *, seed):
  raise KeyError('a page')


def refuses(messages, *, seed):
  raise ServiceFault('not today')


def say(text):
  return [Message('user', text)]


def test_a_function_answers():
  assert Function(f'{HERE}:echo')(say('hello'), seed=4) == 'hello 4'


@pytest.mark.parametrize(
  ('path', 'why'),
  [
    ('echo', 'module:name'),
    (':echo', 'module:name'),
    (f'{HERE}:nothing', ''),
    ('no_such_module:echo', 'no_such_module'),
    (f'{HERE}:NUMBER', ''),
  ],
)
def test_a_wrong_path_is_told_at_once(path, why):
  with errors.raises(ValueError, why):
    Function(path)


@pytest.mark.parametrize(
  ('name', 'why'),
  [
    ('wordless', ''),
    ('broken', 'KeyError'),
    ('refuses', ''),
  ],
)
def test_what_goes_wrong_is_a_fault_and_counted(name, why):
  watched = CountedService(Function(f'{HERE}:{name}'), len, capacity=5)
  for _ in range(2):  # a fault is not remembered
    with errors.raises(ServiceFault, why):
      watched(say('x'), seed=0)
  counts = {'calls': 2, 'failed': 2, 'known': 0, 'tokens': 0}
  assert watched.taken() == counts


def test_the_latest_used_answers_are_kept():
  watched = CountedService(echo, len, capacity=2)
  first = watched(say('a'), seed=1)
  assert watched(say('a'), seed=2) == first == 'a 1'
  watched(say('b'), seed=1)
  watched(say('a'), seed=3)
  watched(say('c'), seed=1)  # takes the place of b
  assert watched(say('a'), seed=4) == 'a 1'
  assert watched(say('b'), seed=5) == 'b 5'
  assert watched.taken() == {
    'calls': 7,
    'failed': 0,
    'known': 3,
    'tokens': 4 * len('a 1'),
  }
  watched.forget()
  assert watched(say('b'), seed=6) == 'b 6'
  assert watched.taken()['calls'] == 1


def test_what_was_asked_before_it_forgot_is_not_remembered():
  def becomes_another(messages, *, seed):
    watched.forget()
    return str(seed)

  watched = CountedService(becomes_another, len, capacity=5)
  assert [watched(say('a'), seed=i) for i in range(3)] == ['0', '1', '2']


def test_content_is_all_that_is_said_and_who_says_it():
  watched = CountedService(echo, len, capacity=9)
  watched([Message('user', 'a')], seed=1)
  assert watched([Message('tool', 'a')], seed=2) == 'a 2'
  assert watched([Message('system', 'x'), *say('a')], seed=3) == 'a 3'


def test_without_a_cache_every_seed_counts():
  watched = CountedService(echo, len)
  said = [watched(say('a'), seed=seed) for seed in (1, 2)]
  assert said == ['a 1', 'a 2']


def test_counts_of_many_threads_add_up():
  watched = CountedService(echo, len, capacity=10)
  with ThreadPoolExecutor(8) as pool:
    asked = [say(str(i % 20)) for i in range(400)]
    said = list(pool.map(lambda m: watched(m, seed=0), asked))
  assert said == [f'{i % 20} 0' for i in range(400)]
  assert watched.taken()['calls'] == 400


def test_a_system_text_stands_first_and_alone():
  heard = []

  def listen(messages, *, seed):
    heard.append(messages)
    return ''

  with_system_text(listen, 'Be kind.')(say('a'), seed=0)
  with_system_text(listen, 'Be kind.')(
    [Message('system', 'You are 7.'), *say('a')], seed=0
  )
  assert heard == [
    [Message('system', 'Be kind.'), *say('a')],
    [Message('system', 'Be kind.\nYou are 7.'), *say('a')],
  ]
  assert with_system_text(listen, '') is listen


def test_a_cache_has_a_size():
  with errors.raises(ValueError, 'capacity -1'):
    CountedService(echo, len, capacity=-1)
