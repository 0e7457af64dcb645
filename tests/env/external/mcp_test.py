"""Prompts with the tools of an MCP server, written with its own package."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import pytest

from agentrl.env import base
from agentrl.env.external import mcp as family_lib
from agentrl.env.external.mcp import Mcp
from agentrl.rollout.workers import pool
from agentrl.rollout.workers.replies import EnvError
from agentrl.runtime import install
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Call
from tests import errors, marks
from tests.env.external import configured

pytest.importorskip('mcp', reason=install.command('host'))
WAIT = 60
SERVER = pathlib.Path(__file__).with_name('orders_server.py')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp('mcp')
  shutil.copy(SERVER, path / 'server.py')
  rows = [
    {'prompt': f'How many orders has {"x" * i}?', 'answer': i + 10}
    for i in range(1, 30)
  ]
  (path / 'tasks.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  return path


@pytest.fixture(scope='module', autouse=True)
def found():
  """A server finds its package where the tests find it."""
  patch = pytest.MonkeyPatch()
  patch.setenv('PYTHONPATH', os.pathsep.join(sys.path))
  yield
  patch.undo()


def family(folder, **fields):
  plain = dict(
    server=f'{sys.executable} {folder / "server.py"}',
    path=str(folder / 'tasks.jsonl'),
    verifier='numeric',
    seconds=60.0,
  )
  return Mcp(**(plain | fields))


def call(tool, **args):
  return format_of('hermes').write([Call(tool, args)])


def test_it_is_a_family(folder):
  made = family(folder)
  made.check()
  assert isinstance(made, base.FiniteFamily)
  assert isinstance(made, base.MarksCalls)
  sizes = made.sizes()
  assert sum(sizes.values()) == 29
  for split, count in sizes.items():
    assert len(list(made.tasks(split, count, 0))) == count
  assert 'How many orders a customer has.' in made.system
  assert '"leave"' in made.system
  only = family(folder, tools='orders')
  assert '"leave"' not in only.system
  assert only.name() != made.name()
  with errors.raises(ValueError, 'ship'):
    family(folder, tools='orders ship').check()
  parts = {x.part for x in made.spans(call('orders', name='a'))}
  assert 'call' in parts


@pytest.mark.slow
def test_episodes(folder):
  """One server after another, which has seen nothing of the last episode.

  One that has died costs its episode; the last one ends with the environment.
  """
  made = family(folder)
  task = {'text': 'How many?', 'row': {'prompt': 'How many?', 'answer': 11}}
  with pool.env_workers(made, 1) as workers:
    for answer, score in (('11', 1.0), ('12', 0.0)):
      assert workers[0].reset(task, 0).result(WAIT) == 'How many?'
      reply = workers[0].step(call('orders', name='x')).result(WAIT)
      assert '11' in reply.text
      assert not reply.done
      assert (reply.info['calls'], reply.info['faults']) == (1.0, 0.0)
      wrong = workers[0].step(call('orders', name='nobody')).result(WAIT)
      assert 'Error executing tool orders' in wrong.text
      assert wrong.info['fault_error'] == 1.0
      assert 'is missing' in workers[0].step(call('orders')).result(WAIT).text
      last = workers[0].step(f'<answer>{answer}</answer>').result(WAIT)
      assert (last.done, last.score, last.reward) == (True, score, score)
    with pytest.raises(EnvError) as caught:
      workers[0].step(call('leave')).result(WAIT)
    assert caught.value.kind == 'exception'
    workers[0].reset(task, 0).result(WAIT)
    assert servers(folder)
  assert not marks.left(lambda: servers(folder))


def servers(folder) -> set[int]:
  """Processes whose command names the folder."""
  out = set()
  for place in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
    with contextlib.suppress(OSError):
      if os.fsencode(folder / 'server.py') in place.read_bytes():
        out.add(int(place.parent.name))
  return out


@pytest.mark.slow
def test_a_server_at_an_address(folder):
  """It is not fresh: an episode meets what the last one left."""
  with socket.create_server(('127.0.0.1', 0)) as free:
    port = free.getsockname()[1]
  words = [sys.executable, str(folder / 'server.py'), str(port)]
  process = subprocess.Popen(
    words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
  )
  try:
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
      try:
        socket.create_connection(('127.0.0.1', port), 1).close()
        break
      except OSError:
        time.sleep(0.05)
    made = family(folder, server=f'http://127.0.0.1:{port}/mcp', fresh=False)
    made.check()
    env = made.env()
    task = {'text': 'How many?', 'row': {'prompt': 'How many?', 'answer': 21}}
    for count in (11, 21):
      env.reset(task, 0)
      assert str(count) in env.step(call('orders', name='x')).text
    process.kill()
    process.wait()
    with pytest.raises(ConnectionError):
      env.step(call('orders', name='x'))
    env.close()
  finally:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    ({'server': ''}, 'env.server URL'),
    ({'server': '"'}, 'env.server'),
    ({'server': '/bin/no', 'seconds': 5.0}, 'env.server MCP server'),
    ({'path': ''}, 'env.path'),
    ({'verifier': 'lost'}, 'env.verifier lost'),
    ({'verifier': ''}, 'env.verifier'),
  ],
)
def test_mistakes_come_before_anything_is_made(folder, fields, words):
  right = {'server': 'true', 'verifier': 'numeric'}
  right['path'] = str(folder / 'tasks.jsonl')
  configured.refuses('mcp', words, **(right | fields))


def test_the_tools_of_a_server_are_asked_for_once(folder, monkeypatch):
  made = family(folder)
  first = made.system
  monkeypatch.setattr(family_lib, 'McpServer', None)
  assert made.system == first
