"""The server: its port and its key, and what hostile clients get from it."""

import contextlib
import itertools
import json
import resource
import socket
import time

import pytest

from agentrl.gateway.app import GatewayLimits
from agentrl.gateway.server import Gateway
from tests.gateway.stub import Client, Stub, made, opened, user

CHAT = 'v1/chat/completions'
WELL = {'messages': [user('x')]}


def well(client):
  """Others are untouched."""
  status, reply = client.post(CHAT, WELL)
  assert (status, reply['object']) == (200, 'chat.completion')


def head(client, **more):
  lines = {'Host': 'x', 'Authorization': f'Bearer {client.key}', **more}
  fields = ''.join(f'{name}: {x}\r\n' for name, x in lines.items())
  return f'POST {client.at.path}/{CHAT} HTTP/1.1\r\n{fields}\r\n'.encode()


def connected(client):
  return contextlib.closing(
    socket.create_connection((client.at.hostname, client.at.port), 20)
  )


def test_each_run_has_a_port_and_a_key_of_its_own():
  with opened() as (one, client, _), opened() as (two, other, _two):
    assert one.port != two.port
    assert one.key != two.key
    well(client)
    other.key = one.key
    assert other.post(CHAT, WELL)[0] == 401
  with pytest.raises(OSError):
    client.post(CHAT, WELL)


def test_it_listens_where_it_is_told():
  with Gateway(Stub(), model='m', context=9, host='::1') as gateway:
    address = gateway.open('a', made())
    assert address == f'http://[::1]:{gateway.port}/s/a'
    well(Client(address, gateway.key))


def test_replies_are_not_held_back():
  """Sockets of the server send at once what they are given."""
  held = []

  class Watching(Stub):
    def submit(self, context, how):
      (transport,) = [
        x.transport for x in gateway._server.server_state.connections
      ]
      inner = transport.get_extra_info('socket')
      held.append(inner.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
      return super().submit(context, how)

  with opened(Watching()) as (gateway, client, _session):
    well(client)
  assert held[0]


@pytest.mark.parametrize('chunked', [False, True])
def test_a_body_of_100_mb(chunked):
  """Refused before it is there: no memory of that size is held."""
  limits = GatewayLimits(body=1 << 20)
  with opened(limits=limits) as (_, client, _session):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    part, reply = bytes(1 << 20), b''
    with connected(client) as s:
      size = {'Transfer-Encoding': 'chunked'}
      s.sendall(
        head(client, **(size if chunked else {'Content-Length': 100 << 20}))
      )
      with contextlib.suppress(OSError):
        for _ in range(100):
          s.sendall(b'100000\r\n' + part + b'\r\n' if chunked else part)
      with contextlib.suppress(OSError):
        reply = s.recv(1000)
    assert b'413' in reply or not reply  # which may be lost with the rest
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40_000  # kB
    well(client)


def test_a_body_that_is_too_large_is_told_so():
  with opened(limits=GatewayLimits(body=100)) as (_, client, _session):
    status, reply = client.post(CHAT, {'messages': [user('x' * 100)]})
    assert status == 413
    assert 'larger than the 100 bytes' in reply['error']['message']
    status, reply = client.post('v1/messages', {'messages': [user('x' * 100)]})
    assert reply['error']['type'] == 'request_too_large'
    well(client)


def test_slow_writers_are_let_go():
  with opened(limits=GatewayLimits(seconds=0.2)) as (_, client, _session):
    with connected(client) as silent, connected(client) as slow:
      slow.sendall(head(client, **{'Content-Length': 50}) + b'{"mess')
      assert b'408' in slow.recv(1000)
      assert silent.recv(1000) == b''
    well(client)


PARTS = (  # of a request
  b'PO',
  b'POST /s/a HTTP/1.1\r\nHost: x\r\n',
  b'POST /s/a/reward HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{',
  b'POST /s/a/reward HTTP/1.1\r\nHost: x\r\n'
  b'Transfer-Encoding: chunked\r\n\r\n5\r\nab',
)


def test_half_a_request_is_let_go_whatever_was_before():
  """Behind an answer as well, for a right key or a wrong one."""
  limits = GatewayLimits(seconds=0.3)
  with opened(limits=limits, calls=99) as (_, client, _session):
    body = json.dumps(WELL).encode()
    size = {'Content-Length': len(body)}
    right = head(client, **size) + body
    wrong = head(client, **size, Authorization='Bearer no') + body
    befores = {b'': b'', right: b' 200 ', wrong: b' 401 '}
    with contextlib.ExitStack() as stack:
      left = []
      for before, part in itertools.product(befores, PARTS):
        s = stack.enter_context(connected(client))
        if before:
          s.sendall(before)
          assert befores[before] in s.recv(10_000)
        s.sendall(part)
        left.append(s)
      began = time.monotonic()
      for s in left:
        with contextlib.suppress(OSError):
          while s.recv(10_000):  # what it is told, and then the end
            pass
      assert time.monotonic() - began < 10
    well(client)


def test_a_byte_now_and_then_is_not_enough():
  with opened(limits=GatewayLimits(seconds=0.3)) as (_, client, _session):
    with connected(client) as s:
      s.sendall(b'GET /s/a/v1/models HTTP/1.1\r\nHost: x\r\n\r\n')
      assert b'401' in s.recv(10_000)
      s.settimeout(0.05)
      for _ in range(200):
        try:
          s.sendall(b'G')
          if not s.recv(10_000):
            break
        except TimeoutError:
          continue
        except OSError:
          break
      else:
        pytest.fail('it is still open')
    well(client)


def test_a_connection_that_is_kept_outlives_a_pause():
  """Nothing of the next request is there yet."""
  with opened(limits=GatewayLimits(seconds=0.1)) as (_, client, _session):
    connection, lines = client.connect(), set()
    with contextlib.closing(connection):
      for pause in (0.3, 0):
        request = {'Authorization': f'Bearer {client.key}'}
        connection.request(
          'GET', f'{client.at.path}/v1/models', headers=request
        )
        assert connection.getresponse().read()
        lines.add(connection.sock)
        time.sleep(pause)
      assert len(lines) == 1


def test_slow_readers_wait_alone():
  with opened(calls=40) as (_, client, _session):
    body = json.dumps(WELL).encode()
    request = head(client, **{'Content-Length': len(body)}) + body
    with contextlib.ExitStack() as stack:
      for _ in range(4):
        s = stack.enter_context(connected(client))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.sendall(request)  # and reads nothing
      for _ in range(3):
        well(client)


def test_a_bomb_of_schemas_is_too_long():
  schema = {'type': 'object'}
  for _ in range(20):  # a million nodes, were it unfolded
    schema = {'a': {'$ref': '#'}, 'b': schema}
  function = {'name': 'f', 'parameters': {**schema, 'x': 'y' * 200_000}}
  body = WELL | {'tools': [{'type': 'function', 'function': function}]}
  with opened() as (_, client, session):
    status, reply = client.post(CHAT, body)
    assert (status, reply['error']['code']) == (400, 'context_length_exceeded')
    assert not session.graph.calls
    well(client)
