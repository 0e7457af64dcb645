"""The viewer's server: what it gives, to whom, and how much of it."""

import base64
import hashlib
import http.client
import json
import re
import socket
import struct
import time

import pytest

from agentrl.log import trajectories
from agentrl.report.trajectories import page as trajectories_page
from agentrl.report.trajectories import server as trajectories_server
from tests import errors

SCRIPTS = re.compile(r'<(script|style)>(.*?)</\1>', re.DOTALL)


def get(server, path, *, method='GET', host=None):
  connection = http.client.HTTPConnection(*server.server_address, timeout=60)
  headers = {'Host': host} if host else {}
  connection.request(method, path, headers=headers)
  answer = connection.getresponse()
  return answer.status, answer.read().decode(), dict(answer.getheaders())


@pytest.mark.parametrize(
  ('words', 'match'),
  [
    ({'colour': 'red'}, 'colour red phase status'),
    ({'phase': 'test'}, 'phase test sft rl eval'),
    ({'from': 'x'}, 'from x'),
    ({'task': '9' * 10}, 'task'),
  ],
)
def test_what_is_no_filter_is_told(words, match, server):
  with errors.raises(ValueError, match):
    trajectories_page.query(words)
  ((name, value),) = words.items()
  status, text, _ = get(server, f'/list?{name}={value}')
  assert status == 400
  errors.check(text, match)


def test_the_server_gives_what_the_log_holds(server, folder):
  status, text, _ = get(server, '/some?i=4,0')
  log = trajectories.Log(folder)
  assert status == 200
  assert json.loads(text) == [{'i': 4, **log[4]}, {'i': 0, **log[0]}]
  status, text, _ = get(server, '/list?phase=eval')
  assert [row['i'] for row in json.loads(text)['rows']] == [9]
  status, text, _ = get(server, '/some?i=99')
  assert 'below 10, got 99' in json.loads(text)[0]['error']
  for wrong in ('', 'x', '-1', '1,' * 64 + '1'):
    assert get(server, f'/some?i={wrong}')[0] == 400


def test_only_this_machine_may_read(server):
  """Loopback, under its own name, by GET, and nothing but what it has."""
  port = server.server_address[1]
  assert server.server_address[0] == '127.0.0.1'
  for host, status in {
    f'127.0.0.1:{port}': 200,
    f'localhost:{port}': 200,
    '127.0.0.1': 403,
    f'evil.example:{port}': 403,
    f'127.0.0.1.evil.example:{port}': 403,
  }.items():
    for path in ('/', '/list', '/some?i=0'):
      found = get(server, path, host=host)
      assert found[0] == status
      assert status == 200 or 'hacked' not in found[1]
  for method in ('POST', 'PUT', 'DELETE', 'OPTIONS'):
    assert get(server, '/list', method=method)[0] == 501
  for path in (
    '/../config.json',
    '/trajectories/00000-00000.jsonl',
    '//x',
    '/%2e%2e',
  ):
    assert get(server, path)[0] == 404


def test_what_is_named_often_is_given_once(server, folder):
  status, text, _ = get(server, '/some?i=' + ','.join(['4', '0', '4'] * 21))
  log = trajectories.Log(folder)
  assert status == 200
  assert json.loads(text) == [{'i': 4, **log[4]}, {'i': 0, **log[0]}]


def test_an_answer_has_a_bound(server, folder, monkeypatch):
  """What goes beyond it is told, and not even read."""
  log = trajectories.Log(folder)
  monkeypatch.setattr(trajectories_page, 'ROOM', len(log.text(0)) + 10)
  _, text, _ = get(server, '/some?i=0,1,2')
  first, *others = json.loads(text)
  assert first == {'i': 0, **log[0]}
  for t in others:
    assert 'at most 10 bytes' in t['error']
  assert len(others) == 2


def connect(server, request: bytes) -> socket.socket:
  s = socket.create_connection(server.server_address, timeout=60)
  s.sendall(request)
  return s


def rest(s: socket.socket) -> bytes:
  """All that comes until the server hangs up."""
  found = []
  try:
    while found[-1:] != [b'']:
      found.append(s.recv(1 << 16))
  except ConnectionError:
    pass
  s.close()
  return b''.join(found)


def refused(s: socket.socket, data: bytes) -> bool:
  try:
    s.sendall(data)
  except ConnectionError:
    return True
  return False


@pytest.fixture
def impatient(serve):
  with serve(seconds=0.3) as server:
    yield server


def test_a_slow_client_is_hung_up_on(impatient):
  """One that says nothing, and one that says a byte now and then."""
  silent = connect(impatient, b'GET / HT')
  assert rest(silent) == b''
  drip = connect(impatient, b'GET / HTTP/1.1\r\n')
  until(lambda: refused(drip, b'X: y\r\n'))
  drip.close()


def test_one_that_does_not_read_is_hung_up_on(impatient, monkeypatch):
  impatient.text = 'x' * (64 << 20)  # more than a socket holds
  host = f'127.0.0.1:{impatient.server_address[1]}'.encode()
  s = connect(impatient, b'GET / HTTP/1.1\r\nHost: ' + host + b'\r\n\r\n')
  until(lambda: impatient._room._value == trajectories_server.CONNECTIONS - 1)
  until(lambda: impatient._room._value == trajectories_server.CONNECTIONS)
  assert len(rest(s)) < 64 << 20


def until(true):
  end = time.monotonic() + 60
  while not true():
    assert time.monotonic() < end
    time.sleep(0.01)


def test_too_many_at_once_are_told_so(server):
  waiting = [
    connect(server, b'G') for _ in range(trajectories_server.CONNECTIONS)
  ]
  until(lambda: server._room._value == 0)
  said = rest(connect(server, b''))
  assert said.startswith(b'HTTP/1.1 503 ')
  assert b'too many connections at once; try again' in said
  for s in waiting:
    s.close()
  until(lambda: server._room._value == trajectories_server.CONNECTIONS)
  assert get(server, '/')[0] == 200


def test_a_client_that_leaves_is_no_traceback(server, capfd):
  """With a reset, before and while it is answered."""
  host = f'127.0.0.1:{server.server_address[1]}'.encode()
  whole = b'GET / HTTP/1.1\r\nHost: ' + host + b'\r\n\r\n'
  for request in (b'', b'GET', whole, whole * 50):
    s = connect(server, request)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
  until(lambda: server._room._value == trajectories_server.CONNECTIONS)
  assert get(server, '/')[0] == 200
  assert capfd.readouterr().err == ''


def test_an_odd_request_is_told_so(server):
  for path in ('//[', '/some?i=' + '9' * 5000, '/list?from=' + '9' * 5000):
    assert get(server, path)[0] in (400, 404), path


def test_the_page_lets_only_its_own_script_run(server):
  _, text, headers = get(server, '/')
  policy = headers['Content-Security-Policy']
  assert "default-src 'none'" in policy
  assert "connect-src 'self'" in policy
  assert "frame-ancestors 'none'" in policy
  assert 'unsafe' not in policy
  assert headers['X-Content-Type-Options'] == 'nosniff'
  assert '&lt;b&gt;run&lt;/b&gt;' in text
  found = SCRIPTS.findall(text)
  assert {kind for kind, _ in found} == {'script', 'style'}
  for _, content in found:
    digest = hashlib.sha256(content.encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
