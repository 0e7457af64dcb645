"""Requests over loopback: who may ask, retries, streams, clients that leave."""

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl.gateway import app, request
from agentrl.gateway.app import RETRY, GatewayLimits
from agentrl.gateway.server import Gateway
from tests import errors
from tests.gateway.stub import Client, Stub, made, opened, until, user

CHAT = 'v1/chat/completions'


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
  ('session', 'path', 'key', 'status', 'names'),
  [
    ('a', CHAT, 'wrong', 401, 'key'),
    ('a', 'reward', 'wrong', 401, 'key'),
    ('b', CHAT, None, 404, 'session b'),
    ('b', 'v1/messages', None, 404, 'session b'),
  ],
)
def test_who_may_ask(session, path, key, status, names):
  with opened() as (gateway, _client, _):
    address = f'{gateway.address}/s/{session}'
    client = Client(address, key or gateway.key)
    got, reply = client.post(path, {'messages': [user('x')]})
  assert got == status
  errors.check(reply['error']['message'], names)


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
    replies = [
      client.post(CHAT, body, **{RETRY: tries})[1]
      for tries in ('0', '1', '0', '2')
    ]
  said = [x['choices'][0]['message']['content'] for x in replies]
  # A retry is of the newest request with this body.
  assert said == ['said 1', 'said 1', 'said 2', 'said 2']
  assert session.counts['retries'] == 2
  assert [t.first for t in session.graph.turns()] == [True, True]


@pytest.mark.parametrize('stream', [False, True])
def test_a_client_that_leaves_takes_its_call_back(stream):
  generator, limits = Stub(held=True), GatewayLimits(headers=0.02, alive=0.02)
  with opened(generator, limits=limits) as (_, client, session):
    body = {'messages': [user('x')], 'stream': stream}
    with contextlib.closing(client.connect()) as connection:
      head = {'Authorization': f'Bearer {client.key}'}
      path = f'{client.at.path}/{CHAT}'
      connection.request('POST', path, json.dumps(body), head)
      until(lambda: generator.asked)
      if stream:
        with connection.getresponse() as response:
          assert response.readline() == b': alive\n'
    until(lambda: session.counts['cancelled'] == 1)
    assert generator.futures[0].cancelled()
    assert not session.graph.calls
    generator.go.set()
    client.chat([user('x')])
  # As if the first had not been: the same key.
  one, two = (how.key.tolist() for _, how in generator.asked)
  assert one == two


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

    body = {'reward': 7, 'score': 0.5, 'terms': {'a': 2}}
    status, reply = client.post('reward', body)
    assert (status, reply) == (200, body)
    status, reply = client.post('reward', {'reward': 1})
    assert status == 409
    errors.check(reply['error']['message'], '7')
    assert gateway.close_session('a').reward == (7.0, 0.5, {'a': 2.0})


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
  with (
    opened(held, calls=99) as (_, client, session),
    ThreadPoolExecutor(2) as pool,
  ):
    pending = []
    for path in (one, other):
      pending.append(pool.submit(client.post, path, BOTH))
      until(lambda: len(held.asked) + session.counts['retries'] == len(pending))
    assert session.counts['retries'] == (one == other)
    held.go.set()
    (_, first), (_, second) = (x.result() for x in pending)
    assert (first == second) == (one == other)
    assert client.post(one, BOTH)[1] != first  # nothing is under way


def test_one_body_to_two_sessions_is_two_calls():
  generator = Stub()
  with opened(generator) as (gateway, client, one):
    other = made()
    second = Client(gateway.open('b', other), gateway.key)
    client.post(CHAT, BOTH, **{RETRY: '0'})
    second.post(CHAT, BOTH, **{RETRY: '1'})
  assert len(generator.asked) == 2
  assert len(one.graph.calls) == len(other.graph.calls) == 1


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
