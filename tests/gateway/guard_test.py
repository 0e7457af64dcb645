"""Who may ask a server without a key: programs of this machine, and no page."""

import contextlib
import socket

import pytest
from starlette.requests import Request

from agentrl.gateway.app import DIALECTS
from agentrl.gateway.guard import Guard
from agentrl.gateway.request import RefusedError
from agentrl.gateway.server import Gateway
from tests.gateway.stub import Client, Stub, made, user

JSON = {'host': '127.0.0.1:8000', 'content-type': 'application/json'}
OWN = socket.gethostname()


def status(headers, host='127.0.0.1', key='', method='POST'):
  """Of a request with these headers; 200: it is answered."""
  scope = {
    'type': 'http',
    'method': method,
    'headers': [
      (k.encode(), v.encode('latin-1'))
      for k, v in headers.items()
      if v is not None
    ],
    'state': {'admit': lambda: True},
  }
  try:
    Guard(key, host).check(Request(scope))
  except RefusedError as error:
    return error.status
  return 200


# Where the server listens: names that are its own, and names that are not.
NAMES = {
  '127.0.0.1': (
    (
      '127.0.0.1', '127.0.0.1:8000', '127.8.9.1:1', 'localhost',
      'LocalHost.:80', 'a.localhost:80', '[::1]:8000',
    ),
    (
      'evil.example', 'evil.example:8000', '127.0.0.1.evil.example',
      'localhost.evil.example', 'evillocalhost', 'localhost@evil.example',
      'evil.example@localhost', '10.0.0.5', '0.0.0.0:8000', '', None, '[',
      '[::1', '::1', 'localhost:', 'local host', '\xe9',
    ),
  ),
  '::1': (('[::1]',), ()),
  '10.0.0.5': (('10.0.0.5:8000', OWN), ('10.0.0.6',)),
  'box.example': (('box.example',), ()),
  '0.0.0.0': (('10.0.0.5', OWN), ('evil.example',)),
  '::': (('[fd00::1]:80',), ('evil.example',)),
}  # fmt: skip


@pytest.mark.parametrize(
  ('listening', 'host', 'want'),
  [
    (listening, host, want)
    for listening, names in NAMES.items()
    for want, hosts in zip((200, 403), names, strict=True)
    for host in hosts
  ],
)
def test_the_name_that_was_asked_for(listening, host, want):
  """A site can have its own name point to this machine."""
  headers = JSON | {'host': host}
  assert status(headers, listening) == want
  assert status(headers, listening, method='GET') == want
  # With a key any name will do: no page knows the key.
  known = headers | {'authorization': 'Bearer k'}
  assert status(known, listening, 'k') == 200
  assert status(headers, listening, 'k') == 401


@pytest.mark.parametrize(('key', 'host'), [('k', '0.0.0.0'), ('', '127.0.0.1')])
def test_the_name_of_the_machine_is_looked_up_only_where_it_is_used(
  monkeypatch, key, host
):
  """Where no server of names answers that takes many seconds."""

  def slow(*_):
    raise AssertionError('looked up')

  monkeypatch.setattr(socket, 'getfqdn', slow)
  Guard(key, host)


@pytest.mark.parametrize(
  ('headers', 'want'),
  [
    ({}, 200),
    ({'origin': 'http://127.0.0.1:8000'}, 200),
    ({'origin': 'http://127.0.0.1:8000', 'sec-fetch-site': 'same-origin'}, 200),
    ({'sec-fetch-site': 'none'}, 200),
    ({'origin': 'http://evil.example'}, 403),
    ({'origin': 'null'}, 403),
    ({'origin': ''}, 403),
    ({'origin': 'http://127.0.0.1:9000'}, 403),
    ({'origin': 'http://127.0.0.1'}, 403),
    ({'origin': 'file://'}, 403),
    ({'origin': 'http://127.0.0.1:8000.evil.example'}, 403),
    ({'sec-fetch-site': 'cross-site'}, 403),
    ({'sec-fetch-site': 'same-site'}, 403),
    ({'content-type': 'application/json; charset=utf-8'}, 200),
    ({'content-type': 'Application/JSON'}, 200),
    ({'content-type': 'text/plain'}, 415),
    ({'content-type': 'text/plain; application/json'}, 415),
    ({'content-type': 'application/x-www-form-urlencoded'}, 415),
    ({'content-type': 'multipart/form-data; boundary=x'}, 415),
    ({'content-type': 'application/jsonp'}, 415),
    ({'content-type': ''}, 415),
    ({'content-type': None}, 415),
  ],
)
def test_what_a_page_sends(headers, want):
  assert status(JSON | headers) == want
  # Nothing is sent with a GET, and no page could read the answer of its own.
  assert status(JSON | headers, method='GET') == (200 if want == 415 else want)
  assert status(JSON | headers | {'x-api-key': 'k'}, key='k') == 200


@contextlib.contextmanager
def keyless():
  """-> client of a session, client of the server, what was updated"""
  new = []
  with Gateway(
    Stub(),
    model='m',
    context=2000,
    key='',
    update=lambda path, version: new.append(version),
  ) as gateway:
    session = Client(gateway.open('a', made()), '')
    yield session, Client(gateway.address, ''), new


PAGES = [
  {'Host': 'evil.example'},
  {'Origin': 'https://evil.example'},
  {'Origin': 'null'},
  {'Content-Type': 'text/plain'},
]


@pytest.mark.parametrize('page', PAGES)
def test_no_route_answers_a_page(page):
  body = {'messages': [user('x')], 'input': 'x', 'token_ids': [20], 'reward': 1}
  body |= {'max_tokens': 9, 'path': 'p', 'version': 1}
  with keyless() as (session, server, new):
    asked = [(x, path) for x in (session, server) for path in DIALECTS]
    asked += [(session, 'reward'), (server, 'update_weights')]
    for client, path in asked:
      got, reply = client.post(path, body, **page)
      assert got in (403, 415), (path, page)
      assert next(iter(page)) in reply['error']['message']
    if 'Content-Type' not in page:
      for client in (session, server):
        assert client.send('v1/models', b'', 'GET', **page)[0] == 403
    assert new == []
    # Programs of this machine are answered.
    assert session.post('reward', body)[0] == 200
    assert server.post('update_weights', body)[0] == 200
    assert new == [1]


def test_no_page_is_allowed_to_send_json():
  """A browser asks first, by OPTIONS."""
  with keyless() as (session, _, new):
    connection = session.connect()
    with contextlib.closing(connection):
      asks = {'Origin': 'https://evil.example'}
      asks['Access-Control-Request-Method'] = 'POST'
      connection.request('OPTIONS', '/update_weights', headers=asks)
      response = connection.getresponse()
      names = {x.lower() for x in response.headers}
      assert not any(x.startswith('access-control-allow') for x in names)
      assert response.status >= 400
    assert new == []
