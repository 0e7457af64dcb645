import concurrent.futures
import threading
import time

import pytest

from agentrl.text.tool_calls.base import Call, Malformed
from agentrl.tool import base
from agentrl.tool.base import Answer, ToolError
from agentrl.tool.schema import mismatch, schema


class Echo:
  name = 'echo'
  description = 'Says it again.'
  schema = schema(
    ['text'],
    text='string',
    times='integer',
    share='number',
    style={'type': 'string', 'enum': ['loud', 'low']},
    places={'type': 'array', 'items': {'type': 'integer'}},
    free={},
    either={'type': ['integer', 'null']},
  )

  def __call__(self, text, times=1, **_):
    if text == 'raise':
      raise KeyError('gone')
    if text == 'fault':
      raise ToolError('memory', 'too much')
    return 3 if text == 'number' else text * times


class Meet:
  """Answers when all its calls are there at the same time."""

  name = 'meet'
  description = ''
  schema = schema()

  def __init__(self, parties):
    self.barrier = threading.Barrier(parties)

  def __call__(self):
    return str(self.barrier.wait(30) >= 0)


class Sleep:
  name = 'sleep'
  description = ''
  schema = schema()

  def __init__(self):
    self.over = threading.Event()

  def __call__(self):
    self.over.wait(60)
    return 'late'


@pytest.fixture(scope='module')
def pool():
  with concurrent.futures.ThreadPoolExecutor(8) as held:
    yield held


def without_time(answers):
  return [answer[:3] for answer in answers]


def echo(**args):
  return Call('echo', args)


def test_answers_come_in_the_order_of_the_calls(pool):
  calls = [
    echo(text='a', times=2),
    Malformed('learn this'),
    Call('gone', {}),
    echo(text='raise'),
    echo(text='fault'),
    echo(text='number'),
    echo(),
    echo(text=1),
    echo(text='z'),
  ]
  answers = base.run(calls, [Echo()], pool)
  assert without_time(answers) == [
    ('echo', 'aa', ''),
    ('', 'learn this', 'malformed'),
    ('gone', "There is no tool 'gone'; there are echo.", 'unknown'),
    ('echo', "echo failed: KeyError: 'gone'", 'error'),
    ('echo', 'too much', 'memory'),
    (
      'echo',
      'echo failed: TypeError: it answered with int, not with text',
      'error',
    ),
    ('echo', 'echo was not called: text is missing.', 'arguments'),
    (
      'echo',
      'echo was not called: text must be of type string, and 1 is not.',
      'arguments',
    ),
    ('echo', 'z', ''),
  ]
  counted = base.count(answers)
  assert counted['calls'] == 9
  assert {k: v for k, v in counted.items() if v and k != 'calls'} == {
    'malformed': 1,
    'unknown': 1,
    'error': 2,
    'memory': 1,
    'arguments': 2,
  }
  assert set(counted) == {'calls', *base.KINDS}


def test_calls_run_side_by_side(pool):
  """Six calls that wait for each other would never end one by one."""
  answers = base.run([Call('meet', {})] * 6, [Meet(6)], pool)
  assert without_time(answers) == [('meet', 'True', '')] * 6


def test_a_tool_that_hangs_costs_its_call_only(pool):
  sleep = Sleep()
  calls = [Call('sleep', {}), echo(text='a')]
  answers = base.run(calls, [sleep, Echo()], pool, seconds=0.2)
  sleep.over.set()
  assert answers[0] == Answer(
    'sleep', 'sleep did not answer in time.', 'time', 0.0
  )
  assert answers[1][:3] == ('echo', 'a', '')


def test_no_calls_are_no_answers(pool):
  assert base.run([], [], pool) == []
  assert base.count([])['calls'] == 0


def test_seconds_are_those_of_the_call(pool):
  class Nap:
    name, description, schema = 'nap', '', schema()

    def __call__(self):
      time.sleep(0.05)
      return ''

  (answer,) = base.run([Call('nap', {})], [Nap()], pool)
  assert answer.seconds >= 0.05


@pytest.mark.parametrize(
  ('args', 'complaint'),
  [
    (dict(text='a'), ''),
    (dict(text='a', times=2, share=1, style='low', places=[1]), ''),
    (dict(text='a', free=[{}], either=None), ''),
    (dict(text='a', share=0.5, either=2), ''),
    (dict(text='a', times=True), 'times must be of type integer, and True'),
    (dict(text='a', times=1.5), 'times must be of type integer'),
    (dict(text='a', times=1.0), ''),
    (dict(text='a', share=False), 'share must be of type number'),
    (dict(text='a', either='x'), 'either must be of type integer or null'),
    (dict(text='a', style='wild'), "one of ['loud', 'low'], and 'wild'"),
    (dict(text='a', places=[1, 'b']), 'places[1] must be of type integer'),
    (dict(text='a', more=1), 'it takes text, times'),
    (dict(text=None), 'text must be of type string, and None is not'),
  ],
)
def test_arguments_are_held_against_the_schema(args, complaint):
  said = mismatch(args, Echo.schema)
  assert said == '' if not complaint else complaint in said


def test_a_schema_may_allow_more():
  assert mismatch({'x': 1}, schema()) != ''
  assert mismatch({'x': 1}, schema() | {'additionalProperties': True}) == ''


def test_mistakes_are_named(pool):
  with pytest.raises(ValueError, match='echo'):
    base.run([], [Echo(), Echo()], pool)
  with pytest.raises(ValueError, match='broken'):
    ToolError('broken', 'it')
