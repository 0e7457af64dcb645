"""Models without sessions: conversations found again, and what clients ask."""

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from agentrl.gateway import served as lib
from agentrl.gateway.app import GatewayLimits
from agentrl.gateway.request import RefusedError
from agentrl.gateway.server import Gateway
from agentrl.text import chat_format
from agentrl.text.tool_calls import format_of
from tests import errors
from tests.gateway.stub import WORDS, Client, Stub, until, user

CHAT = 'v1/chat/completions'


@contextlib.contextmanager
def serving(*names, generator=None, **fields):
  """-> client, generator."""
  generator = generator or Stub()
  limits = GatewayLimits()
  sizes = {'message': 16, 'context': 200, **fields}
  with Gateway(generator, model='x', context=200, limits=limits) as gateway:
    for name in names:
      talk, format = chat_format.bare(WORDS), format_of('hermes')
      model = lib.ServedModel(name, generator, talk, format, **sizes)
      gateway.serve(model)
    yield Client(gateway.address, gateway.key), generator


def said(reply):
  return reply['choices'][0]['message']


def test_what_was_sampled_is_read_again_as_it_was_sampled():
  """Also where its text would be other tokens."""
  generator = Stub(['a', 'b', 'c'])
  submit, sampled = generator.submit, WORDS.encode('a')[0]

  def oddly(context, how):
    future = submit(context, how)
    future.result().ids[:] = [sampled, sampled]  # without an end of turn
    return future

  generator.submit = oddly
  with serving('m', generator=generator) as (client, _):
    talk = [user('x')]
    for text in 'yz':
      talk += [said(client.chat(talk, model='m')), user(text)]
    client.chat(talk, model='m')
  contexts = [x for x, _ in generator.asked]
  for before, after in itertools.pairwise(contexts):
    assert after[: len(before) + 2] == [*before, sampled, sampled]


def test_a_history_of_their_own_is_rendered():
  with serving('m') as (client, generator):
    talk = [user('x'), {'role': 'assistant', 'content': 'hm'}, user('y')]
    client.chat(talk, model='m')
  words = WORDS.decode(generator.asked[0][0])
  assert words == 'x\nhm<eot>y\n'


def test_the_client_says_how_to_sample():
  with serving('m') as (client, generator):
    fields = {'temperature': 0, 'top_p': 0.5, 'max_tokens': 3, 'seed': 7}
    reply = client.chat([user('x')], model='m', **fields)
    client.chat([user('x')], model='m', max_tokens=99)
    client.chat([user('x')], model='m', max_tokens=99)
    params = {'sampling_params': {'top_k': -1, 'seed': 2**32}}
    client.post('inference/v1/generate', {'token_ids': [20], **params})
  hows = [how for _, how in generator.asked]
  np.testing.assert_array_equal(hows[0].key, [0, 7])
  np.testing.assert_array_equal(hows[3].key, [1, 0])
  assert hows[0][1:5] == (3, 0.0, 0, 0.5)
  assert hows[1][1:5] == (16, 1.0, 0, 1.0)
  assert tuple(hows[1].key) != tuple(hows[2].key)  # two samples of one body
  assert reply['choices'][0]['finish_reason'] == 'length'


@pytest.mark.parametrize(
  ('asked', 'sentence'),
  [
    ({'temperature': -1}, 'temperature -1 0'),
    ({'temperature': 'hot'}, 'temperature hot'),
    ({'top_p': 0}, 'top_p 0 1e-06 1'),
    ({'top_k': 1.5}, 'top_k 1.5 -1'),
    ({'max_output_tokens': 0}, 'max_output_tokens 0 1'),
    ({'seed': True}, 'seed True'),
  ],
)
def test_wrong_numbers_are_refused(asked, sentence):
  with errors.raises(RefusedError, sentence):
    lib.client_sampling(8)(0, asked)


def test_models_are_asked_by_name():
  with serving('a', 'b') as (client, _):
    names = client.send('v1/models', b'', method='GET')[1]
    assert '"a"' in names
    assert '"b"' in names
    for name in 'ab':
      assert client.chat([user('x')], model=name)['model'] == name
    for name in ('c', None):
      status, reply = client.post(CHAT, {'model': name, 'messages': []})
      assert (status, reply['error']['code']) == (404, 'model_not_found')
      assert 'one of a, b' in reply['error']['message']
  with serving('a') as (client, _):
    assert client.post(CHAT, {'messages': [user('x')]})[1]['model'] == 'a'


def test_a_wrong_key_is_refused():
  with serving('m') as (client, _):
    client.key = 'wrong'
    assert client.post(CHAT, {'messages': [user('x')]})[0] == 401
    assert client.send('v1/models', b'', method='GET')[0] == 401


def test_a_retry_gets_the_same_message_and_a_repeat_another():
  with serving('m') as (client, _):
    body = {'messages': [user('x')]}
    first, again, other = (
      said(client.post(CHAT, body, **{'x-stainless-retry-count': n})[1])
      for n in '010'
    )
  assert first == again != other


def test_equal_requests_at_once_are_samples_of_their_own():
  """Of clients that do not count their tries, as any of an evaluation."""
  body = {'messages': [user('x')]}
  held = Stub(held=True)
  with serving('m', generator=held) as (client, _), ThreadPoolExecutor(2) as p:
    replies = [p.submit(client.post, CHAT, body) for _ in '12']
    until(lambda: len(held.asked) == 2)
    held.go.set()
    one, two = (said(x.result()[1]) for x in replies)
  assert one != two


def test_old_conversations_are_forgotten_and_long_ones_begin_anew():
  with serving('m', keep=1) as (client, generator):
    talk = [user('x')]
    first = said(client.chat(talk, model='m'))
    client.chat([user('another')], model='m')
    client.chat([*talk, first, user('y')], model='m')
  assert WORDS.decode(generator.asked[2][0]) == 'x\nsaid 1<eot>y\n'
  with serving('m') as (client, generator):
    for _ in range(lib.CALLS + 1):
      assert client.post(CHAT, {'messages': [user('x')]})[0] == 200


def test_a_prompt_without_room_is_refused():
  with serving('m', context=20) as (client, _):
    body = {'messages': [user('x' * 10)], 'max_tokens': 4}
    assert client.post(CHAT, body)[0] == 200
    status, reply = client.post(CHAT, body | {'max_tokens': 12})
    assert (status, reply['error']['code']) == (400, 'context_length_exceeded')
