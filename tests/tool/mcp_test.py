"""A server written with the package itself, spoken to as any other."""

import concurrent.futures
import json
import os
import pathlib
import sys
import time

import pytest

from agentrl.runtime import install
from agentrl.text.tool_calls.base import Call
from agentrl.tool import base
from agentrl.tool.base import ToolError
from agentrl.tool.mcp import McpServer
from tests import errors, marks

pytest.importorskip('mcp', reason=install.command('host'))

marked = marks.marked  # a fixture
SERVER = """
import os, sys, time
from mcp.server import MCPServer

server = MCPServer('small')


@server.tool()
def add(a: int, b: int) -> int:
  '''Adds two integers.'''
  return a + b


@server.tool()
def fail() -> str:
  '''Always fails.'''
  raise ValueError('it never works')


@server.tool()
def long() -> str:
  '''Says much.'''
  return 'x' * 100_000


@server.tool()
def sleep(seconds: float) -> str:
  '''Sleeps.'''
  time.sleep(seconds)
  return 'awake'


@server.tool()
def pid() -> str:
  '''The number of the process.'''
  return str(os.getpid())


@server.tool()
def leave() -> str:
  '''Ends the server.'''
  os._exit(1)


server.run()
"""


@pytest.fixture(scope='module')
def command(tmp_path_factory):
  path = tmp_path_factory.mktemp('mcp') / 'server.py'
  path.write_text(SERVER)
  return [sys.executable, str(path)]


def started(command, **settings):
  env = {'PYTHONPATH': os.pathsep.join(sys.path)} | settings.pop('env', {})
  return McpServer(command, env=env, seconds=60, **settings)


@pytest.fixture
def server(command):
  with started(command) as held:
    yield held


def alive(pid: str) -> bool:
  try:
    state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2]
  except FileNotFoundError:
    return False
  return state.split()[0] != 'Z'


@pytest.mark.slow
def test_its_tools_are_tools_and_end_with_it(server):
  """One server for all: starting one takes a second."""
  tools = {tool.name: tool for tool in server.tools}
  assert set(tools) == {'add', 'fail', 'long', 'sleep', 'pid', 'leave'}
  assert tools['add'].description == 'Adds two integers.'
  assert set(tools['add'].schema['properties']) == {'a', 'b'}
  assert tools['add'](a=2, b=3) == '5'
  assert tools['long']().endswith(f'(cut: {100_000 - 4000} characters more)')

  calls = [Call('add', {'a': i, 'b': 1}) for i in range(8)]
  calls += [Call('fail', {}), Call('add', {'a': 'x', 'b': 1}), Call('add', {})]
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    answers = base.run(calls, server.tools, pool)
  assert [x.text for x in answers[:8]] == [str(i + 1) for i in range(8)]
  assert [x.fault for x in answers[8:]] == ['error', 'arguments', 'arguments']
  assert 'fail' in answers[8].text

  server._seconds = 0.2
  with pytest.raises(ToolError) as caught:
    tools['sleep'](seconds=5.0)
  assert caught.value.kind == 'time'
  server._seconds = 60
  pid = tools['pid']()
  assert alive(pid)
  server.close()
  for _ in range(100):
    if not alive(pid):
      break
    time.sleep(0.1)
  assert not alive(pid)
  with pytest.raises(ToolError):
    tools['add'](a=2, b=3)


@pytest.mark.slow
def test_a_server_that_dies_costs_its_calls_and_starts_again(command):
  with started(command, restarts=1) as server:
    tools = {tool.name: tool for tool in server.tools}
    first = tools['pid']()
    waiting = server._connection.ask('sleep', {'seconds': 50.0})
    with errors.raises(ToolError, 'leave') as caught:
      tools['leave']()
    assert caught.value.kind == 'error'
    with errors.raises(Exception, ''):
      waiting.result(60)  # ended by the same death
    assert not alive(first)
    second = tools['pid']()
    assert second != first
    assert tools['add'](a=1, b=2) == '3'
    with errors.raises(ToolError, 'leave'):
      tools['leave']()
    with errors.raises(ToolError, '1') as caught:
      tools['add'](a=1, b=2)
    assert caught.value.kind == 'error'
  assert not alive(second)


def test_an_error_of_a_living_server_starts_none(server):
  """Here of the protocol: there is no such tool."""
  pid = server.call('pid', {})
  with errors.raises(ToolError, 'missing'):
    server.call('missing', {})
  assert server.call('pid', {}) == pid


def test_one_that_cannot_start_again_says_so(command, tmp_path):
  path = tmp_path / 'server.py'
  path.write_text(pathlib.Path(command[1]).read_text())
  with started([sys.executable, str(path)]) as server:
    path.write_text('raise SystemExit("gone")')
    with pytest.raises(ToolError):
      server.call('leave', {})
    with errors.raises(ToolError, 'pid'):
      server.call('pid', {})


@pytest.mark.parametrize(
  ('command', 'match'),
  [
    (['/no/such/server'], '/no/such/server'),
    ([sys.executable, '-c', 'print("no protocol")'], ''),
    ([], ''),
  ],
)
def test_mistakes_are_named(command, match):
  with errors.raises(ValueError, match):
    McpServer(command, seconds=20)


@pytest.mark.nightly
def test_nothing_that_a_server_started_is_left(command, marked):
  """Not even what has left its process group."""
  code = (
    'import runpy, subprocess\n'
    'subprocess.Popen(["sleep", "600"], start_new_session=True)\n'
    'subprocess.Popen(["sleep", "600"], process_group=0)\n'
    f'runpy.run_path({command[1]!r})'
  )
  env = {marks.NAME: os.environ[marks.NAME]}
  with started([sys.executable, '-c', code], env=env) as held:
    assert len(held.tools) == 6
    marks.sleeping(marked, 2)
  assert not marks.left(marked)


@pytest.mark.nightly
def test_a_silent_command_is_not_waited_for_and_is_ended(tmp_path):
  note = tmp_path / 'pid'
  code = (
    f'import os, time; open({str(note)!r}, "w").write(str(os.getpid()));'
    'time.sleep(1000)'
  )
  with errors.raises(ValueError, 'MCP'):
    McpServer([sys.executable, '-c', code], seconds=15)
  assert note.exists(), 'it had no time to start: nothing was shown'
  assert not alive(note.read_text())


WRITTEN = pathlib.Path(__file__).with_name('written_server.py')


def listed(name, **fields):
  return {'name': name, 'inputSchema': {'type': 'object'}, **fields}


def text(*texts):
  return {'content': [{'type': 'text', 'text': x} for x in texts]}


@pytest.fixture
def written(tmp_path):
  """Starts a server that sends what it is told."""

  def start(answers, pages=None, seconds=60.0, **fields):
    tools = [listed(name, **fields.get(name, {})) for name in answers]
    said = {'pages': pages or [[tools, None]], 'answers': answers}
    path = tmp_path / 'said.json'
    path.write_text(json.dumps(said))
    words = [sys.executable, str(WRITTEN), str(path)]
    return McpServer(words, seconds=seconds)

  return start


def test_answers_of_every_form(written):
  """Of one server that goes on after each of them."""
  number = {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
  hostile = {'type': 'object', 'properties': {'n': {'pattern': '^(a|a)*$'}}}
  answers = {
    'structured': {'content': [], 'structuredContent': {'sum': 5}},
    'empty': {'content': []},
    'fails': {'content': [], 'isError': True},
    'says': text('It is full.') | {'isError': True},
    'why': {'content': [], 'isError': True, 'structuredContent': {'why': 'no'}},
    'null': {'content': None},
    'video': {'content': [{'type': 'video', 'data': ''}]},
    'refused': {'error': {'code': -32000, 'message': 'one\ntwo'}},
    'garbage': 'garbage',
    'changed': 'changed',
    'fits': text('ok') | {'structuredContent': {'n': 7}},
    'wrong': text('ok') | {'structuredContent': {'n': 'x'}},
    'hostile': text('ok') | {'structuredContent': {'n': 'a' * 60 + '!'}},
  }
  fields = {
    'fits': {'outputSchema': number},
    'wrong': {'outputSchema': number},
    'hostile': {'outputSchema': hostile},
  }
  with written(answers, **fields) as server:
    calls = [Call(name, {}) for name in answers]
    out = base.run(calls, server.tools)
    told = {x.name: x.text for x in out}
    faults = {x.name for x in out if x.fault}
    assert server.alive
  assert faults == {
    'fails', 'says', 'why', 'null', 'video', 'refused', 'wrong', 'hostile'
  }  # fmt: skip
  assert told['structured'] == '{"sum": 5}'
  assert told['says'] == 'It is full.'
  assert told['why'] == '{"why": "no"}'
  assert told['garbage'] == 'after garbage'
  assert told['fits'] == 'ok\n{"n": 7}'
  for name in ('empty', 'fails', 'null', 'video', 'refused', 'wrong'):
    assert name in told[name]
    assert '\n' not in told[name]
  assert 'content' in told['null']
  assert "n must be of type integer, and 'x'" in told['wrong']


def test_a_silent_call_costs_its_time_and_a_death_its_call(written):
  with written(
    {'silent': 'silent', 'leave': 'leave', 'ok': text('ok')}
  ) as held:
    tools = {tool.name: tool for tool in held.tools}
    held._seconds = 0.3
    with pytest.raises(ToolError) as caught:
      tools['silent']()
    assert caught.value.kind == 'time'
    held._seconds = 60
    with errors.raises(ToolError, 'leave'):
      tools['leave']()
    assert tools['ok']() == 'ok'


def test_tools_are_listed_to_the_last_page(written):
  pages = [[[listed('a')], '1'], [[], '2'], [[listed('b'), listed('c')], '']]
  with written({'c': text('third')}, pages) as server:
    assert [x.name for x in server.tools] == ['a', 'b', 'c']
    assert server.tools[2]() == 'third'


@pytest.mark.parametrize(
  ('pages', 'match'),
  [
    ([[[listed('a')], '0']], ''),
    ([[[listed('a')], '1'], [[listed('a')], None]], 'a'),
    (
      [[[listed('a', inputSchema={'type': 'object', 'properties': 5})], None]],
      'properties',
    ),
    (
      [[[listed('a', inputSchema={'type': 'object', 'not': 5})], None]],
      'a',
    ),
    (
      [[[listed('a', outputSchema={'type': 'object', 'not': 5})], None]],
      'a',
    ),
    ([[[{'name': 'a'}], None]], 'inputSchema'),
  ],
)
def test_a_list_that_cannot_be_used_is_refused_at_once(written, pages, match):
  with errors.raises(ValueError, match) as caught:
    written({}, pages)
  assert '\n' not in str(caught.value)


def test_tools_of_two_servers_may_be_renamed(written):
  with written({'a': text('first')}) as one, written({'a': text('b')}) as two:
    tools = [*one.tools, *two.tools]
    with errors.raises(ValueError, 'a'):
      base.run([], tools)
    tools[1].name = 'other'
    answers = base.run([Call('a', {}), Call('other', {})], tools)
    assert [x.text for x in answers] == ['first', 'b']
