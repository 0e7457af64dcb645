import concurrent.futures
import os
import subprocess
import sys
import threading
import time

import pytest

from agentrl.text.tool_calls.base import Call, Malformed
from agentrl.tool import base
from agentrl.tool.base import Answer, ToolError
from agentrl.tool.schema import mismatch, schema
from tests import errors


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
    ('gone', "Unknown tool 'gone'; use one of echo.", 'unknown'),
    ('echo', "echo failed: KeyError: 'gone'", 'error'),
    ('echo', 'too much', 'memory'),
    (
      'echo',
      'echo failed: TypeError: its answer must be a str, got int',
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
  with pytest.raises(ValueError):
    base.run([], [Echo(), Echo()], pool)
  with errors.raises(ValueError, 'broken'):
    ToolError('broken', 'it')


class Quick:
  name = 'quick'
  description = ''
  schema = schema()

  def __call__(self):
    return 'here'


@pytest.fixture
def asleep():
  """A tool that sleeps until the test ends, of a kind of its own."""

  class Asleep(Sleep):
    name = 'asleep'

  tool = Asleep()
  yield tool
  tool.over.set()


@pytest.mark.parametrize('pooled', [True, False])
def test_tools_that_hang_leave_room_for_others(asleep, pooled):
  with concurrent.futures.ThreadPoolExecutor(4) as four:
    pool = four if pooled else None
    hung = base.run([Call('asleep', {})] * 4, [asleep], pool, seconds=0.05)
    assert [x.fault for x in hung] == ['time'] * 4
    (answer,) = base.run([Call('quick', {})], [Quick()], pool, seconds=20)
    assert answer[:3] == ('quick', 'here', '')


def test_a_call_has_its_time_from_when_it_begins(asleep):
  """Not from when it was queued behind others."""
  with concurrent.futures.ThreadPoolExecutor(1) as one:
    calls = [Call('asleep', {}), Call('asleep', {}), Call('quick', {})]
    answers = base.run(calls, [asleep, Quick()], one, seconds=0.5)
  assert [x.fault for x in answers] == ['time', 'time', '']


def test_a_tool_that_hangs_is_called_only_so_often(asleep):
  """Then it is refused, others are not, and it is called again once it ends."""
  for _ in range(4):
    base.run([Call('asleep', {})] * 4, [asleep], seconds=0.01)
  calls = [Call('asleep', {}), Call('quick', {})]
  answers = base.run(calls, [asleep, Quick()], seconds=20)
  assert answers[0].fault == 'time'
  assert 'asleep was not called: 16' in answers[0].text
  assert answers[1].fault == ''
  asleep.over.set()
  end = time.monotonic() + 20
  while time.monotonic() < end:
    (answer,) = base.run(calls[:1], [asleep], seconds=20)
    if not answer.fault:
      break
  assert answer.text == 'late'


def test_a_program_ends_while_its_tools_hang():
  code = (
    'import concurrent.futures, time\n'
    'from agentrl.text.tool_calls.base import Call\n'
    'from agentrl.tool import base, schema\n'
    'class Hang:\n'
    '  name, description, schema = "hang", "", schema.schema()\n'
    '  def __call__(self):\n'
    '    time.sleep(600)\n'
    'for pool in (None, concurrent.futures.ThreadPoolExecutor(2)):\n'
    '  print(base.run([Call("hang", {})], [Hang()], pool, seconds=.1)[0].fault)'
  )
  done = subprocess.run(
    [sys.executable, '-c', code],
    capture_output=True,
    text=True,
    timeout=120,
    env=os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    check=True,
  )
  assert done.stdout.split() == ['time', 'time']


@pytest.mark.parametrize('error', [SystemExit, KeyboardInterrupt, TimeoutError])
def test_whatever_a_tool_raises_costs_its_call_only(error):
  class Raises:
    name, description, schema = 'raises', '', schema()

    def __call__(self):
      raise error('no')

  (answer,) = base.run([Call('raises', {})], [Raises()], seconds=20)
  assert answer.fault == 'error'
  assert error.__name__ in answer.text


def test_a_tool_gets_an_integer_for_a_number_that_is_whole():
  got = []

  class Take:
    name, description = 'take', ''
    schema = schema(['n'], n='integer', xs='array')

    def __call__(self, **args):
      got.append(repr(args))
      return ''

  calls = [Call('take', {'n': 5.0, 'xs': [1.0, 0.5, True, '2.0']})]
  (answer,) = base.run(calls, [Take()])
  assert answer.fault == ''
  assert got == ["{'n': 5, 'xs': [1, 0.5, True, '2.0']}"]


@pytest.mark.parametrize(
  'faulty',
  [
    {'type': 'str'},
    {'properties': {'a': 5}},
    {'properties': {'a': {'$ref': 'http://localhost/a.json'}}},
  ],
)
def test_a_faulty_schema_is_refused_before_any_call(faulty):
  tool = Quick()
  tool.schema = faulty
  with errors.raises(ValueError, 'quick') as caught:
    base.run([], [tool])
  assert '\n' not in str(caught.value)
