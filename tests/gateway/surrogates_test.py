"""Halves of surrogate pairs, from models and clients, in every dialect."""

import json

import pytest

from tests.gateway.stub import Client, Stub, complete, opened, user

SAID = '<tool_call>\n{"name": "f", "arguments": {"x": "\\ud83d"}}\n</tool_call>'
PARAMETERS = {'type': 'object', 'properties': {'x': {'type': 'string'}}}
CHAT = {
  'messages': [user('go')],
  'tools': [
    {'type': 'function', 'function': {'name': 'f', 'parameters': PARAMETERS}}
  ],
}
RESPONSES = {
  'input': 'go',
  'tools': [{'type': 'function', 'name': 'f', 'parameters': PARAMETERS}],
}
MESSAGES = {
  'messages': [user('go')],
  'max_tokens': 64,
  'tools': [{'name': 'f', 'input_schema': PARAMETERS}],
}
BODIES = {
  'v1/chat/completions': CHAT,
  'v1/responses': RESPONSES,
  'v1/messages': MESSAGES,
}
ROOM = dict(calls=99, message=300, row=100_000)


@pytest.mark.parametrize('path', BODIES)
@pytest.mark.parametrize('stream', [False, True])
def test_a_call_that_a_model_writes(path, stream):
  with opened(Stub([SAID]), **ROOM) as (_, client, session):
    status, text = client.send(path, BODIES[path] | {'stream': stream})
    assert status == 200
    assert '\ufffd' in text
    assert 'ud83d' not in text
    # What was sampled is kept as it was.
    (done,) = session.completions.values()
    assert complete(session.graph.calls[0].ids).ids == done.ids
    assert session._words.decode(done.ids).startswith(SAID)


def test_a_client_goes_on_from_such_a_call():
  with opened(Stub([SAID]), **ROOM) as (_, client, session):
    message = client.chat(**CHAT)['choices'][0]['message']
    result = {'role': 'tool', 'content': 'x'}
    result['tool_call_id'] = message['tool_calls'][0]['id']
    more = CHAT | {'messages': [*CHAT['messages'], message, result]}
    client.chat(**more)
    # One that spells it as the model did has the same value.
    use = message['tool_calls'][0]['function']
    use['arguments'] = '{"x":"\\ud83d"}'
    client.chat(**more)
  assert [x.prompt.foreign for x in session.graph.calls.values()] == [0, 0, 0]
  assert [x.prompt.parent for x in session.graph.calls.values()] == [-1, 0, 0]


def test_an_error_that_holds_half_a_pair():
  class Broken(Stub):
    def submit(self, context, how):
      raise OSError('no file \udc80')  # as names of files may

  with opened(Broken()) as (_, client, _session):
    for path in BODIES:
      for stream in (False, True):
        status, reply = client.post(path, BODIES[path] | {'stream': stream})
        assert status == 500
        assert 'no file \ufffd' in reply['error']['message']


@pytest.mark.parametrize('name', ['%ed%a0%bd', '%ff', '%00', '%22', '%0a'])
def test_a_session_of_any_name(name):
  with opened() as (gateway, client, _session):
    odd = Client(f'{gateway.address}/s/{name}', client.key)
    status, text = odd.send('v1/models', b'', 'GET')
  assert status == 404
  assert json.loads(text)['error']['message']
