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
from agentrl.tool.schema import schema
from tests import errors


class Tool:
  """Of a function."""

  description = ''

  def __init__(self, name, called, required=(), **types):
    self.name, self._called = name, called
    self.schema = schema(required, **types)

  def __call__(self, **args):
    return self._called(**args)


def say(text, times=1):
  if text == 'raise':
    raise KeyError('gone')
  if text == 'fault':
    raise ToolError('memory', 'too much')
  return 3 if text == 'number' else text * times


ECHO = Tool('echo', say, ['text'], text='string', times='integer')
QUICK = Tool('quick', lambda: 'here')


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
    echo(text='a', more=1),
    echo(text='z'),
  ]
  answers = base.run(calls, [ECHO], pool)
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
    (
      'echo',
      'echo was not called: it takes text, times, and not more.',
      'arguments',
    ),
    ('echo', 'z', ''),
  ]
  counted = base.count(answers)
  assert counted['calls'] == 10
  assert {k: v for k, v in counted.items() if v and k != 'calls'} == {
    'malformed': 1,
    'unknown': 1,
    'error': 2,
    'memory': 1,
    'arguments': 3,
  }
  assert set(counted) == {'calls', *base.KINDS}


def test_calls_run_side_by_side(pool):
  """Six calls that wait for each other would never end one by one."""
  barrier = threading.Barrier(6)
  meet = Tool('meet', lambda: str(barrier.wait(30) >= 0))
  answers = base.run([Call('meet', {})] * 6, [meet], pool)
  assert without_time(answers) == [('meet', 'True', '')] * 6


@pytest.fixture
def asleep():
  """A tool that sleeps until the test ends, and the event of its end."""
  over = threading.Event()
  yield Tool('asleep', lambda: 'late' if over.wait(60) else ''), over
  over.set()


def test_a_tool_that_hangs_costs_its_call_only(asleep, pool):
  calls = [Call('asleep', {}), echo(text='a')]
  answers = base.run(calls, [asleep[0], ECHO], pool, seconds=0.2)
  assert answers[0] == Answer(
    'asleep', 'asleep did not answer in time.', 'time', 0.0
  )
  assert answers[1][:3] == ('echo', 'a', '')


def test_no_calls_are_no_answers(pool):
  assert base.run([], [], pool) == []
  assert base.count([])['calls'] == 0


def test_seconds_are_those_of_the_call(pool):
  nap = Tool('nap', lambda: str(time.sleep(0.05)))
  (answer,) = base.run([Call('nap', {})], [nap], pool)
  assert answer.seconds >= 0.05


def test_mistakes_are_named(pool):
  with pytest.raises(ValueError):
    base.run([], [ECHO, ECHO], pool)
  with errors.raises(ValueError, 'broken'):
    ToolError('broken', 'it')


@pytest.mark.parametrize('pooled', [True, False])
def test_tools_that_hang_leave_room_for_others(asleep, pooled):
  with concurrent.futures.ThreadPoolExecutor(4) as four:
    pool = four if pooled else None
    hung = base.run([Call('asleep', {})] * 4, asleep[:1], pool, seconds=0.05)
    assert [x.fault for x in hung] == ['time'] * 4
    (answer,) = base.run([Call('quick', {})], [QUICK], pool, seconds=20)
    assert answer[:3] == ('quick', 'here', '')


def test_a_call_has_its_time_from_when_it_begins(asleep):
  """Not from when it was queued behind others."""
  with concurrent.futures.ThreadPoolExecutor(1) as one:
    calls = [Call('asleep', {}), Call('asleep', {}), Call('quick', {})]
    answers = base.run(calls, [asleep[0], QUICK], one, seconds=0.5)
  assert [x.fault for x in answers] == ['time', 'time', '']


def test_a_tool_that_hangs_is_called_only_so_often(asleep):
  """Then it is refused, others are not, and it is called again once it ends."""
  sleeper, over = asleep
  for _ in range(4):
    base.run([Call('asleep', {})] * 4, [sleeper], seconds=0.01)
  calls = [Call('asleep', {}), Call('quick', {})]
  answers = base.run(calls, [sleeper, QUICK], seconds=20)
  assert answers[0].fault == 'time'
  assert 'asleep was not called: 16' in answers[0].text
  assert answers[1].fault == ''
  over.set()
  end = time.monotonic() + 20
  while time.monotonic() < end:
    (answer,) = base.run(calls[:1], [sleeper], seconds=20)
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
  def fail():
    raise error('no')

  tool = Tool('raises', fail)
  (answer,) = base.run([Call('raises', {})], [tool], seconds=20)
  assert answer.fault == 'error'
  assert error.__name__ in answer.text


def test_a_tool_gets_an_integer_for_a_number_that_is_whole():
  got = []

  def take(**args):
    got.append(repr(args))
    return ''

  calls = [Call('take', {'n': 5.0, 'xs': [1.0, 0.5, True, '2.0']})]
  (answer,) = base.run(calls, [Tool('take', take, n='integer', xs='array')])
  assert answer.fault == ''
  assert got == ["{'n': 5, 'xs': [1, 0.5, True, '2.0']}"]


def test_a_faulty_schema_is_refused_before_any_call():
  tool = Tool('quick', str)
  tool.schema = {'type': 'str'}
  with errors.raises(ValueError, 'quick'):
    base.run([], [tool])
