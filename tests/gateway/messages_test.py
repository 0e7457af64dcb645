"""Anthropic's messages: what is understood, refused, and how replies look."""

import json

import pytest

from agentrl.gateway import messages
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.text.chat_messages import ChatMessage
from tests import errors
from tests.gateway.stub import REPLY, USE, Stub, opened, user


def test_messages_and_tools():
  use = {'type': 'tool_use', 'id': 'c1', 'name': 'find', 'input': {'x': 1}}
  result = {'type': 'tool_result', 'tool_use_id': 'c1', 'content': 'one'}
  request = messages.parse(
    {
      'system': [{'type': 'text', 'text': 'be brief'}],
      'max_tokens': 100,
      'messages': [
        user('go'),
        {'role': 'assistant', 'content': [{'type': 'thinking'}, use]},
        user([result, {'type': 'text', 'text': 'and?'}]),
        {'role': 'assistant', 'content': 'hm'},
        user([result]),
      ],
      'tools': [{'name': 'find', 'input_schema': {'type': 'object'}}],
      'tool_choice': {'type': 'any'},
    }
  )
  tool = ChatMessage('tool', 'one', answers='c1')
  assert request.messages == [
    ChatMessage('system', 'be brief'),
    ChatMessage('user', 'go'),
    ChatMessage('assistant', '', (USE,)),
    tool,
    ChatMessage('user', 'and?'),
    ChatMessage('assistant', 'hm'),
    tool,
  ]
  assert request.tools == [('find', '', {'type': 'object'})]
  assert request.ignored == ['max_tokens', 'tool_choice']


@pytest.mark.parametrize(
  ('fields', 'sentence'),
  [
    ({'messages': [{'role': 'tool', 'content': ''}]}, 'role tool'),
    ({'messages': [user([{'type': 'image'}])]}, 'type image'),
    ({'tools': [{'type': 'bash_20250124', 'name': 'b'}]}, 'bash_20250124'),
    ({'mcp_servers': [{}]}, 'mcp_servers'),
    ({'stop_sequences': [1]}, 'stop_sequences'),
    ({'output_config': {'format': {}}}, 'output_config.format'),
  ],
)
def test_what_is_refused_by_name(fields, sentence):
  with errors.raises(RefusedError, sentence):
    messages.parse({'messages': [user('x')], **fields})


def test_a_reply():
  body = messages.reply(ModelRequest(), REPLY)
  assert body['content'] == [
    {'type': 'text', 'text': 'so'},
    {'type': 'tool_use', 'id': 'c1', 'name': 'find', 'input': {'x': 1}},
  ]
  assert body['stop_reason'] == 'tool_use'
  assert body['usage'] == {'input_tokens': 2, 'output_tokens': 3}
  empty = REPLY._replace(text='', calls=[], finish='length')
  body = messages.reply(ModelRequest(), empty)
  assert body['content'] == [{'type': 'text', 'text': ''}]
  assert body['stop_reason'] == 'max_tokens'


@pytest.mark.parametrize(
  ('finish', 'stop', 'reason', 'sequence'),
  [
    ('stop', None, 'end_turn', None),
    ('stop', 'END', 'stop_sequence', 'END'),
    ('stop', 7, 'end_turn', None),  # a token, which Anthropic does not have
    ('tool_calls', 'END', 'tool_use', None),
    ('tool_calls', None, 'tool_use', None),
    ('length', None, 'max_tokens', None),
  ],
)
def test_why_a_message_ended(finish, stop, reason, sequence):
  reply = REPLY._replace(finish=finish, stop=stop)
  want = {'stop_reason': reason, 'stop_sequence': sequence}
  body = messages.reply(ModelRequest(), reply)
  assert {x: body[x] for x in want} == want
  events = dict(messages.events(ModelRequest(), reply))
  assert events['message_delta']['delta'] == want
  begun = events['message_start']['message']
  assert [begun[x] for x in want] == [None, None]


def test_over_loopback_a_stop_sequence_is_named():
  with opened(Stub(['so END more'] * 3), calls=9) as (_, client, _session):
    body = {'messages': [user('x')], 'max_tokens': 50}
    body['stop_sequences'] = ['never', 'END']
    _, reply = client.post('v1/messages', body)
    _, text = client.send('v1/messages', body | {'stream': True})
    _, other = client.post(
      'v1/chat/completions', {'messages': [user('x')], 'stop': 'END'}
    )
  assert reply['content'] == [{'type': 'text', 'text': 'so '}]
  assert (reply['stop_reason'], reply['stop_sequence']) == (
    'stop_sequence',
    'END',
  )
  assert '"stop_reason":"stop_sequence","stop_sequence":"END"' in text
  (choice,) = other['choices']
  assert (choice['finish_reason'], choice['stop_reason']) == ('stop', 'END')


def test_what_was_said_comes_back_as_it_was():
  body = messages.reply(ModelRequest(), REPLY)
  (message,) = messages.parse({'messages': [body]}).messages
  assert message == REPLY.message


def test_a_stream_says_what_the_reply_says():
  events = messages.events(ModelRequest(), REPLY)
  assert all(name == data['type'] for name, data in events)
  assert [name for name, _ in events] == [
    'message_start',
    *('content_block_start', 'content_block_delta', 'content_block_stop') * 2,
    'message_delta',
    'message_stop',
  ]
  text, call = (
    data['delta'] for name, data in events if name == 'content_block_delta'
  )
  assert text['text'] == 'so'
  assert json.loads(call['partial_json']) == {'x': 1}
  assert events[0][1]['message']['content'] == []
  assert events[4][1]['content_block']['input'] == {}
  assert events[-2][1]['delta']['stop_reason'] == 'tool_use'


@pytest.mark.parametrize(
  ('status', 'kind'),
  [
    (400, 'invalid_request_error'),
    (401, 'authentication_error'),
    (404, 'not_found_error'),
    (413, 'request_too_large'),
    (500, 'api_error'),
  ],
)
def test_errors(status, kind):
  body = messages.error(RefusedError('why', status=status))
  assert body == {'type': 'error', 'error': {'type': kind, 'message': 'why'}}
  long = RefusedError('9 tokens', code='context_length_exceeded')
  assert messages.error(long)['error']['message'].startswith(
    'prompt is too long'
  )
