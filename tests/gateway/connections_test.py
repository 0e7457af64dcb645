"""Crowds at the gateway: what they hold is bounded, and others go on."""

import contextlib
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys

import pytest

from agentrl.gateway import connections
from agentrl.gateway.app import GatewayLimits
from agentrl.gateway.connections import Connections
from tests.gateway.stub import Client, opened, until, user

CHAT = 'v1/chat/completions'
WELL = json.dumps({'messages': [user('x')]})


class Line:
  """A connection, or its transport."""

  def __init__(self):
    self.cut, self.transport = False, self

  def abort(self):
    self.cut = True


def test_the_oldest_without_a_key_has_to_go():
  known, *lines = [Line() for _ in range(6)]
  held = Connections(2)
  held.join(known)
  assert held.admit(known)
  for line in lines:
    held.join(line)
  assert [x.cut for x in (known, *lines)] == [0, 1, 1, 1, 0, 0]
  assert held.admit(known)
  assert not held.admit(lines[0])  # it is gone
  assert held.admit(lines[4])
  assert not held.admit(lines[3])  # two have shown the key
  held.leave(known)
  assert held.admit(lines[3])
  held.leave(lines[3])
  held.leave(lines[3])
  assert not held.admit(lines[3])


def test_who_leaves_without_a_key_makes_room():
  held, (first, second, third) = Connections(2), (Line() for _ in range(3))
  held.join(first)
  held.join(second)
  held.leave(first)
  held.join(third)
  assert [x.cut for x in (first, second)] == [False, False]


@pytest.mark.parametrize(
  ('files', 'most', 'got'),
  [
    (20_000, 1024, 1024),
    (1024, 1024, 256),
    (1024, 100, 100),
    (2, 5, 1),
    (resource.RLIM_INFINITY, 1024, 1024),
  ],
)
def test_half_of_the_files_are_left_to_the_run(monkeypatch, files, most, got):
  monkeypatch.setattr(resource, 'getrlimit', lambda _: (files, files))
  assert connections.affordable(most) == got


def ask(connection, client):
  """-> status, JSON, over a connection that is kept."""
  head = {'Authorization': f'Bearer {client.key}'}
  connection.request('POST', f'{client.at.path}/{CHAT}', WELL, head)
  response = connection.getresponse()
  return response.status, json.loads(response.read())


def silent(client):
  """A connection on which nothing is sent; it may not be there yet."""
  s = socket.socket()
  s.setblocking(False)
  with contextlib.suppress(BlockingIOError):
    s.connect((client.at.hostname, client.at.port))
  return s


def is_cut(s):
  try:
    return s.recv(1) == b''
  except BlockingIOError:
    return False
  except ConnectionError:
    return True


def test_a_silent_crowd_is_in_its_own_way():
  limits = GatewayLimits(connections=4)
  with opened(limits=limits, calls=99) as (_, client, _session):
    old = client.connect()
    assert ask(old, client)[0] == 200
    line = old.sock
    with contextlib.ExitStack() as stack:
      crowd = [
        stack.enter_context(contextlib.closing(silent(client)))
        for _ in range(20)
      ]
      until(lambda: sum(map(is_cut, crowd)) == 16)
      assert ask(old, client)[0] == 200
      assert client.send(CHAT, WELL.encode())[0] == 200  # a new one comes in
    assert old.sock is line
    old.close()


def test_a_crowd_without_the_key_is_told_and_makes_room():
  limits = GatewayLimits(connections=4)
  with opened(limits=limits, calls=99) as (gateway, client, _session):
    wrong = Client(client.at.geturl(), 'wrong')
    old = client.connect()
    with contextlib.closing(old):
      assert ask(old, client)[0] == 200
      line = old.sock
      crowd = [client.connect() for _ in range(12)]
      assert {ask(x, wrong)[0] for x in crowd} == {401}
      assert ask(old, client)[0] == 200
      assert client.send(CHAT, WELL.encode())[0] == 200
      assert old.sock is line
      for x in crowd:
        x.close()
    held = gateway._server.server_state.connections
    until(lambda: not held)


def test_too_many_that_have_the_key_are_told_so():
  limits = GatewayLimits(connections=3)
  with opened(limits=limits, calls=99) as (_, client, session):
    held = [client.connect() for _ in range(3)]
    for x in held:
      assert ask(x, client)[0] == 200
    late = client.connect()
    status, reply = ask(late, client)
    assert (status, reply['error']['code']) == (503, 'too_many_connections')
    assert 'limit of connections' in reply['error']['message']
    assert len(session.graph.calls) == 3
    held[0].close()
    until(lambda: ask(late, client)[0] == 200)
    for x in (late, *held):
      x.close()


def memory(pid):
  """kB that are held."""
  status = pathlib.Path(f'/proc/{pid}/status').read_text().split('\n')
  return next(int(x.split()[1]) for x in status if x.startswith('VmRSS'))


@contextlib.contextmanager
def alone(files):
  """-> process, client of a gateway that may open so many files."""
  with subprocess.Popen(
    [sys.executable, '-m', 'tests.gateway.crowd_server', str(files)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  ) as process:
    yield process, Client(*json.loads(process.stdout.readline()))
    process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize(
  ('files', 'most'), [(1024, 3000), (8000, 10_000)], ids=['few', 'many']
)
def test_a_crowd_as_large_as_the_limit_allows(files, most):
  """Who was there before goes on, files and memory are bounded."""
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  if hard == resource.RLIM_INFINITY:
    hard = 1 << 20
  resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 500), hard))
  count, files = min(most, hard - 500), min(files, hard)
  with contextlib.ExitStack() as stack:
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    process, client = stack.enter_context(alone(files))
    old = stack.enter_context(contextlib.closing(client.connect()))
    assert ask(old, client)[0] == 200
    line, crowd, rows = old.sock, [], []

    def note(count):
      handles = os.listdir(f'/proc/{process.pid}/fd')
      rows.append((count, memory(process.pid), len(handles)))

    note(0)
    for i in range(count):
      crowd.append(stack.enter_context(contextlib.closing(silent(client))))
      if i % 500 == 499:
        note(i + 1)
        assert ask(old, client)[0] == 200
        assert client.send(CHAT, WELL.encode())[0] == 200
    kept = min(1024, files // 4)
    until(lambda: sum(map(is_cut, crowd)) >= count - kept)
    note(count)
    assert client.send(CHAT, WELL.encode(), Authorization='')[0] == 401
    assert ask(old, client)[0] == 200
    assert old.sock is line
    for s in crowd:
      s.close()
    assert client.send(CHAT, WELL.encode())[0] == 200
    note(0)
    print('\nconnections, kB, files:', *rows)
    first = rows[0]
    assert max(x[1] for x in rows) - first[1] < 60_000
    assert max(x[2] for x in rows) < 2 * kept + 400
