"""A session of OpenEnv: waits for a place, and fails alone."""

import threading

import pytest

from agentrl.env.external import openenv_client
from agentrl.env.external.openenv_client import OpenEnvSession, ServerError
from agentrl.runtime import install
from tests import errors
from tests.env.external import openenv_server

pytest.importorskip('websockets', reason=install.command('host'))


@pytest.fixture(scope='module')
def server():
  with openenv_server.Server() as it:
    yield it


def session(server, **changes):
  return OpenEnvSession(
    server.address, **(dict(seconds=20.0, wait=20.0) | changes)
  )


def test_an_episode(server):
  it = session(server)
  assert it.reset({'seed': 4}) == ({'echo': 'begin 4'}, 0.0, False)
  assert it.step({'message': 'a'}) == ({'echo': '4: a'}, 0.5, False)
  with pytest.raises(openenv_client.ActionError):
    it.step({'note': 'a'})
  assert it.step({'message': 'stop'}) == ({'echo': '4: stop'}, 0.5, True)
  assert it.reset({'seed': 5}).fields == {'echo': 'begin 5'}
  it.close()
  it.close()


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('!raise', 'EXECUTION_ERROR'),
    ('!garbage', 'OpenEnv'),
    ('!deep', 'OpenEnv'),
    ('!reward', ''),
    ('!large', ''),
    ('!leave', ''),
  ],
)
def test_what_a_server_does_wrong_costs_the_episode(server, text, words):
  it, other = session(server), session(server)
  other.reset({'seed': 1})
  it.reset({'seed': 0})
  with errors.raises(ServerError, words) as caught:
    it.step({'message': text})
  assert len(str(caught.value)) < 1000
  assert other.step({'message': 'x'}).fields == {'echo': '1: x'}
  assert it.reset({'seed': 7}).fields == {'echo': 'begin 7'}
  it.close()
  other.close()


def test_silence_is_not_waited_for(server):
  it = session(server, seconds=0.2)
  it.reset({'seed': 0})
  with errors.raises(ServerError, 'TimeoutError'):
    it.step({'message': '!silent'})
  it.close()


def test_a_full_server_is_waited_for():
  with openenv_server.Server(capacity=2) as server:
    ended = []

    def play(seed):
      it = session(server)
      ended.append(it.reset({'seed': seed}).fields['echo'])
      it.step({'message': 'x'})
      it.close()

    threads = [threading.Thread(target=play, args=(i,)) for i in range(6)]
    for x in threads:
      x.start()
    for x in threads:
      x.join()
    assert sorted(ended) == [f'begin {i}' for i in range(6)]
    assert server.most <= 2
    holders = [session(server), session(server)]
    for x in holders:
      x.reset({'seed': 0})
    refused = server.refused
    with errors.raises(ServerError, '0.1 FullError'):
      session(server, wait=0.1).reset({'seed': 0})
    assert server.refused > refused
    for x in holders:
      x.close()


def test_a_server_that_comes_back():
  with openenv_server.Server() as server:
    it, idle = session(server), session(server)
    it.reset({'seed': 0})
    idle.reset({'seed': 1})
    port = server.port
  with pytest.raises(ServerError):
    it.step({'message': 'x'})
  with pytest.raises(ServerError):
    OpenEnvSession(f'http://127.0.0.1:{port}', seconds=1, wait=0.1).reset(
      {'seed': 0}
    )
  with openenv_server.Server(port=port):
    # One that has lost its connection, and one that has not seen it yet.
    assert it.reset({'seed': 2}).fields == {'echo': 'begin 2'}
    assert idle.reset({'seed': 3}).fields == {'echo': 'begin 3'}
    it.close()
    idle.close()


def test_schemas(server):
  schema = openenv_client.action_schema(server.address, 5)
  assert schema == openenv_server.SCHEMA
  assert openenv_client.action_schema('http://127.0.0.1:1', 1) == {}


@pytest.mark.parametrize(
  ('address', 'url'),
  [
    ('http://a:80', 'ws://a:80/ws'),
    ('https://a/env/', 'wss://a/env/ws'),
    ('ws://a:9/ws', 'ws://a:9/ws'),
  ],
)
def test_addresses(address, url):
  assert OpenEnvSession(address, seconds=1, wait=1)._url == url


@pytest.mark.parametrize(
  'address', ['', 'a:80', 'ftp://a', 'http://', 'http://a:x', 'http://a:99999']
)
def test_addresses_that_are_none(address):
  with errors.raises(ValueError, 'env.address'):
    openenv_client.address_parts(address)
