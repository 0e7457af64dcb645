"""Requests over loopback: who may ask, retries, streams, clients that leave."""

import json
import threading
import time

import pytest

from agentrl.gateway import app, request
from agentrl.gateway.app import RETRY, GatewayLimits
from agentrl.gateway.server import Gateway
from tests.gateway import stub
from tests.gateway.stub import Client, Stub, opened, user

CHAT = 'v1/chat/completions'


def until(true):
  end = time.monotonic() + 10
  while not true():
    assert time.monotonic() < end
    time.sleep(0.005)


def test_a_conversation_keeps_its_tokens():
  generator = Stub(['one  two', 'three'])
  with opened(generator) as (_, client, session):
    first = client.chat([user('go')], return_token_ids=True, logprobs=True)
    message = first['choices'][0]['message']
    assert message == {'role': 'assistant', 'content': 'one  two'}
    second = client.chat([user('go'), message, user('on')], seed=5)
  assert second['choices'][0]['message']['content'] == 'three'
  (begin, how), (prompt, _) = generator.asked
  ids = first['choices'][0]['token_ids']
  assert first['prompt_token_ids'] == begin
  assert prompt[: len(begin) + len(ids)] == begin + ids
  content = first['choices'][0]['logprobs']['content']
  assert [x['token'] for x in content] == [f'token_id:{i}' for i in ids]
  assert content[1]['logprob'] == -1.5
  assert how.key.tolist() == [0, 1]
  assert how.budget == 64
  assert second['usage']['prompt_tokens'] == len(prompt)
  assert session.counts['ignored/seed'] == 1
  assert [t.first for t in session.graph.turns()] == [True, False]


@pytest.mark.parametrize(
  ('path', 'key', 'status', 'text'),
  [
    ('v1/chat/completions', 'wrong', 401, 'the API key must be'),
    ('../b/v1/chat/completions', None, 404, "session 'b' does not exist"),
    ('../b/v1/messages', None, 404, "session 'b' does not exist"),
    ('reward', 'wrong', 401, 'the API key must be'),
  ],
)
def test_who_may_ask(path, key, status, text):
  with opened() as (_, client, _session):
    client.key = key or client.key
    parts = f'{client.at.path}/{path}'.split('/')
    if '..' in parts:
      client.at = client.at._replace(path='/s/b')
      path = path[len('../b/') :]
    got, reply = client.post(path, {'messages': [user('x')]})
  assert got == status
  assert text in reply['error']['message']


def test_the_key_of_anthropic_is_taken_too():
  with opened() as (gateway, client, _):
    body = {'messages': [user('x')], 'max_tokens': 9}
    client.key = 'no'
    headers = {'Authorization': '', 'x-api-key': gateway.key}
    status, reply = client.post('v1/messages', body, **headers)
  assert status == 200
  assert reply['content'] == [{'type': 'text', 'text': 'said 1'}]


def test_models_are_listed():
  with opened() as (_, client, _session):
    _, text = client.send('v1/models', b'', 'GET')
  (model,) = json.loads(text)['data']
  assert (model['id'], model['max_model_len']) == ('policy', 2000)


def test_a_retry_gets_the_same_and_a_repeat_is_a_branch():
  with opened() as (_, client, session):
    body = {'messages': [user('x')]}
    said = [
      client.post(CHAT, body, **{RETRY: tries})[1]['choices'][0]['message']
      for tries in ('0', '1', '0', '2')
    ]
  # A retry is of the newest request with this body.
  assert [x['content'] for x in said] == [
    'said 1',
    'said 1',
    'said 2',
    'said 2',
  ]
  assert session.counts['retries'] == 2
  assert [t.first for t in session.graph.turns()] == [True, True]


def test_clients_that_do_not_count_retry_while_the_first_is_under_way():
  generator = Stub(held=True)
  with opened(generator) as (_, client, session):
    replies = []
    threads = [
      threading.Thread(target=lambda: replies.append(client.chat([user('x')])))
      for _ in range(3)
    ]
    for thread in threads:
      thread.start()
    until(lambda: session.counts['retries'] == 2)
    generator.go.set()
    for thread in threads:
      thread.join()
    assert len(generator.asked) == 1
    assert client.chat([user('x')])['choices'][0]['message'] == {
      'role': 'assistant',
      'content': 'said 2',
    }
  assert {x['choices'][0]['message']['content'] for x in replies} == {'said 1'}


def test_a_client_that_leaves_takes_its_call_back():
  generator = Stub(held=True)
  with opened(generator) as (_, client, session):
    connection = client.connect()
    head = {'Authorization': f'Bearer {client.key}'}
    body = json.dumps({'messages': [user('x')]})
    connection.request('POST', f'{client.at.path}/{CHAT}', body, head)
    until(lambda: generator.asked)
    connection.sock.close()
    connection.close()
    until(lambda: session.counts['cancelled'] == 1)
    assert generator.futures[0].cancelled()
    assert not session.graph.calls
    generator.go.set()
    client.chat([user('x')])
  # As if the first had not been: the same key.
  assert (
    generator.asked[0][1].key.tolist() == generator.asked[1][1].key.tolist()
  )


def test_a_stream_is_kept_alive_and_says_all_at_once():
  generator = Stub(['up and down'], held=True)
  limits = GatewayLimits(headers=0.05, alive=0.05)
  with opened(generator, limits=limits) as (_, client, _session):
    threading.Timer(0.4, generator.go.set).start()
    body = {'messages': [user('x')], 'stream': True}
    body['stream_options'] = {'include_usage': True}
    status, text = client.send(CHAT, body)
  assert status == 200
  assert text.startswith(': alive\n\n')
  *chunks, done = [x[6:] for x in text.split('\n\n') if x.startswith('data: ')]
  assert done == '[DONE]'
  chunks = [json.loads(x) for x in chunks]
  deltas = [c['choices'][0]['delta'] for c in chunks if c['choices']]
  assert ''.join(x.get('content', '') for x in deltas) == 'up and down'
  assert chunks[-1]['usage']['completion_tokens'] > 0


def test_a_stream_that_is_left_is_cancelled():
  generator = Stub(held=True)
  limits = GatewayLimits(headers=0.02, alive=0.02)
  with opened(generator, limits=limits) as (_, client, session):
    connection = client.connect()
    head = {'Authorization': f'Bearer {client.key}'}
    body = json.dumps({'messages': [user('x')], 'stream': True})
    connection.request('POST', f'{client.at.path}/{CHAT}', body, head)
    response = connection.getresponse()
    assert response.readline() == b': alive\n'
    response.close()
    connection.close()
    until(lambda: session.counts['cancelled'] == 1)
    generator.go.set()


def test_a_generator_that_fails_is_an_error_of_the_server():
  class Broken(Stub):
    def submit(self, context, how):
      future = super().submit(context, how)
      self.futures[-1] = future = type(future)()
      future.set_exception(ValueError('no room'))
      return future

  with opened(Broken()) as (_, client, session):
    status, reply = client.post(CHAT, {'messages': [user('x')]})
    assert status == 500
    assert 'no room' in reply['error']['message']
    stream = {'messages': [user('x')], 'stream': True}
    assert client.post('v1/messages', stream)[0] == 500
    assert not session.graph.calls


@pytest.mark.parametrize('path', [CHAT, 'reward', 'update_weights'])
def test_others_are_answered_while_a_large_body_is_read(path, monkeypatch):
  reading = []

  def parse_body(raw):
    if len(raw) > 100_000:  # as if it took as long as another request
      reading.append(client.send('v1/models', b'', 'GET')[0])
    return request.parse_body(raw)

  monkeypatch.setattr(app, 'parse_body', parse_body)
  gateway = Gateway(Stub(), model='m', context=9, update=lambda *_: None)
  with gateway, opened() as (_, in_session, _):
    served = Client(gateway.address, gateway.key)
    client = served if path == 'update_weights' else in_session
    client.send(path, json.dumps({'text': 'x' * 200_000}).encode())
  assert reading == [200]


def test_the_first_reward_counts():
  with opened() as (gateway, client, _):
    assert client.post('reward', {'reward': 'much'})[0] == 400
    assert client.post('reward', {'reward': 7})[0] == 400
    for wrong in (3, {'a': 'much'}, {'a': 1e300}, {'a': True}):
      body = {'reward': 1, 'terms': wrong}
      status, reply = client.post('reward', body)
      assert status == 400
      assert 'terms' in reply['error']['message']
    body = {'reward': 7, 'score': 0.5, 'terms': {'a': 2}}
    status, reply = client.post('reward', body)
    assert (status, reply) == (200, body)
    status, reply = client.post('reward', {'reward': 1})
    assert status == 409
    assert 'already has a reward, 7;' in reply['error']['message']
    assert gateway.close_session('a').reward == (7.0, 0.5, {'a': 2.0})


@pytest.mark.parametrize('first', [0, 0.0, -0.0, -1])
def test_a_first_reward_counts_whatever_it_is(first):
  with opened() as (gateway, client, _):
    body = {'reward': first, 'score': 0, 'terms': {'a': 0}}
    for late in (body, {'reward': 1}, {'reward': 0}):
      status, reply = client.post('reward', late)
      assert status == (200 if late is body else 409), reply
    assert gateway.close_session('a').reward == (first, 0.0, {'a': 0.0})


ROUTES = (CHAT, 'v1/responses', 'v1/messages')
BOTH = {'messages': [user('x')], 'input': 'x', 'max_tokens': 9}


@pytest.mark.parametrize('one', ROUTES)
@pytest.mark.parametrize('other', ROUTES)
def test_one_body_to_two_routes_is_two_calls(one, other):
  """Whether the first is answered or under way, and tries are counted."""
  generator = Stub()
  with opened(generator, calls=99) as (_, client, session):
    client.post(one, BOTH, **{RETRY: '0'})
    status, reply = client.post(other, BOTH, **{RETRY: '1'})
    assert status == 200
    assert ('content' in reply) == (other == 'v1/messages')
    assert session.counts['retries'] == (one == other)
    assert len(generator.asked) == 1 + (one != other)
  held = Stub(held=True)
  with opened(held, calls=99) as (_, client, session):
    threads = [
      threading.Thread(target=client.post, args=(path, BOTH))
      for path in (one, other)
    ]
    for i, thread in enumerate(threads):
      thread.start()
      until(lambda: len(held.asked) + session.counts['retries'] > i)
    assert session.counts['retries'] == (one == other)
    held.go.set()
    for thread in threads:
      thread.join()


def test_one_body_to_two_sessions_is_two_calls():
  generator = Stub()
  with opened(generator) as (gateway, client, _):
    second = stub.Client(gateway.open('b', stub.made()), gateway.key)
    client.post(CHAT, BOTH, **{RETRY: '0'})
    second.post(CHAT, BOTH, **{RETRY: '1'})
  assert len(generator.asked) == 2


def test_a_session_that_finishes_answers_those_who_wait():
  generator = Stub(held=True)
  with opened(generator) as (gateway, client, session):
    replies = []
    thread = threading.Thread(
      target=lambda: replies.append(
        client.post(CHAT, {'messages': [user('x')]})
      )
    )
    thread.start()
    until(lambda: generator.asked)
    gateway.close_session('a')
    thread.join()
    ((status, reply),) = replies
    assert status == 400
    assert reply['error']['code'] == 'session_finished'
    assert client.post(CHAT, {'messages': [user('x')]})[0] == 404
    generator.go.set()
  assert session.finished


def test_a_held_connection_outlives_a_pause():
  """As while weights are swapped: no client sees an error."""
  generator = Stub(held=True)
  with opened(generator) as (_, client, _session):
    threading.Timer(0.3, generator.go.set).start()
    assert client.chat([user('x')])['choices'][0]['finish_reason'] == 'stop'


def test_sessions_do_not_see_each_other():
  generator = Stub()
  with opened(generator) as (gateway, client, one):
    other = stub.made()
    second = stub.Client(gateway.open('b', other), gateway.key)
    client.chat([user('x')])
    second.chat([user('x')])
  assert len(one.graph.calls) == len(other.graph.calls) == 1
