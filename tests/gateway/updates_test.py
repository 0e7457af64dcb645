"""New weights of a served model: who may bring them, and who notices."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl.gateway.served import ServedModel
from agentrl.gateway.server import Gateway
from agentrl.rollout.engine import service as service_lib
from agentrl.rollout.engine.engine import Sizes
from agentrl.rollout.engine.service import EngineService
from agentrl.text import chat_format
from agentrl.text.tool_calls import format_of
from tests import errors
from tests.gateway.stub import WORDS, Client, Stub, complete, user

CHAT = 'v1/chat/completions'


class StubEngine:
  """Says its version; a swap takes as long as a test likes."""

  begun, go = threading.Event(), threading.Event()

  def __init__(self, *args, **kwargs):
    self._waiting, self._version = {}, 0

  @property
  def busy(self):
    return bool(self._waiting)

  def update_weights(self, params, version):
    if version:
      self.begun.set()
      assert self.go.wait(20)
    self._version = version

  def submit(self, line, context, how):
    self._waiting[line] = how

  def dispatch(self):
    pass

  def collect(self):
    text = f'version {self._version}'
    ids = [*WORDS.encode(text), WORDS.eot]
    done, self._waiting = list(self._waiting), {}
    return [
      complete(ids)._replace(sequence=x, version=[self._version] * len(ids))
      for x in done
    ]

  def cancel(self, line):
    self._waiting.pop(line, None)


def said(reply):
  status, text = reply
  assert status == 200, text
  return text


def test_a_swap_is_a_wait_for_clients(monkeypatch):
  """However long it takes: connections are held, and nobody gets an error."""
  monkeypatch.setattr(service_lib, 'Engine', StubEngine)
  talk = chat_format.bare(WORDS)
  with EngineService(None, Sizes(1, 200), talk) as service:
    service.update_weights({}, 0)

    def update(path, version):
      service.update_weights(path, version)

    model = ServedModel(
      'm', service, talk, format_of('hermes'), message=16, context=200
    )
    with (
      Gateway(service, model='m', context=200, update=update) as gateway,
      ThreadPoolExecutor(8) as pool,
    ):
      gateway.serve(model)
      client = Client(gateway.address, gateway.key)
      body = {'messages': [user('x')]}
      assert 'version 0' in said(client.send(CHAT, body))
      new = {'path': 'p', 'version': 3}
      swap = pool.submit(client.post, 'update_weights', new)
      assert StubEngine.begun.wait(20)
      asked = [
        pool.submit(client.send, CHAT, body | {'stream': stream})
        for stream in (False, True, False)
      ]
      tokens = {'token_ids': [20]}
      asked.append(pool.submit(client.send, 'inference/v1/generate', tokens))
      names = client.send('v1/models', b'', method='GET')
      assert names[0] == 200  # what needs no model is answered meanwhile
      assert not any(x.done() for x in asked)
      StubEngine.go.set()
      assert swap.result() == (200, {'version': 3})
      texts = [said(x.result()) for x in asked]
  assert all('version 3' in x for x in texts[:3])
  assert json.loads(texts[3])['weight_version'] == '3'


@pytest.mark.parametrize(
  ('body', 'sentence'),
  [
    ({'path': 'torn', 'version': 1}, 'torn is not whole'),
    ({'path': 'locked', 'version': 1}, 'locked is not whole'),
    ({'path': 3, 'version': 1}, 'path must be a string'),
    ({'path': 'p'}, 'got None'),
    ({'path': 'p', 'version': True}, 'got True'),
    ({'path': 'p', 'version': -1}, 'got -1'),
    ({'path': 'p', 'version': 1.0}, 'got 1.0'),
    ({'path': None, 'version': 1}, ' is not whole'),
    ({'path': 'x' * 5000, 'version': 1}, 'is not whole'),
  ],
)
def test_weights_that_are_refused(body, sentence):
  def update(path, version):
    error = PermissionError if path == 'locked' else ValueError
    raise error(f'{path} is not whole')

  with Gateway(Stub(), model='m', context=9, update=update) as gateway:
    client = Client(gateway.address, gateway.key)
    status, reply = client.post('update_weights', body)
    assert status == 400
    assert sentence in reply['error']['message']
    client.key = 'wrong'
    assert client.post('update_weights', body)[0] == 401


def test_only_newer_weights_are_taken():
  taken, fails = [], [False]

  def update(path, version):
    if fails[0]:
      raise ValueError(f'{path} is torn')
    taken.append(version)

  with Gateway(Stub(), model='m', context=9, update=update) as gateway:
    client = Client(gateway.address, gateway.key)

    def post(version, path='p'):
      new = {'path': path, 'version': version}
      return client.post('update_weights', new)

    assert post(0)[0] == post(3)[0] == 200
    for old in (2, 0):
      status, reply = post(old)
      assert status == 409
      errors.check(reply['error']['message'], f'version 3 {old}')
    assert post(3, 'other')[0] == 409
    assert post(3) == (200, {'version': 3})  # its answer may have been lost
    assert taken == [0, 3]
    fails[0] = True
    assert post(5)[0] == 400
    fails[0] = False
    assert post(4)[0] == post(5)[0] == 200  # what failed was not taken
    assert taken == [0, 3, 4, 5]
    with ThreadPoolExecutor(8) as pool:
      statuses = [x[0] for x in pool.map(post, [6] * 8)]
    assert statuses == [200] * 8
    assert taken == [0, 3, 4, 5, 6]


def test_nobody_updates_a_server_that_takes_no_weights():
  with Gateway(Stub(), model='m', context=9) as gateway:
    client = Client(gateway.address, gateway.key)
    assert client.send('update_weights', {'path': 'p', 'version': 1})[0] == 404
