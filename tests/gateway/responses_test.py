"""Responses: what is understood, refused, and how replies look."""

import pytest

from agentrl.gateway import responses
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.text import chat_format
from agentrl.text.chat_messages import ChatMessage
from agentrl.text.message_graph import MessageGraph
from agentrl.text.tool_calls import format_of
from tests import errors
from tests.gateway.stub import REPLY, USE, WORDS, user


def test_items_and_tools():
  call = {'type': 'function_call', 'call_id': 'c1', 'name': 'find'}
  output = {'type': 'function_call_output', 'call_id': 'c1', 'output': 'one'}
  request = responses.parse(
    {
      'instructions': 'be brief',
      'input': [
        {'role': 'developer', 'content': 'be polite'},
        user([{'type': 'input_text', 'text': 'go'}]),
        {'type': 'reasoning', 'summary': []},
        {**call, 'arguments': '{"x": 1}'},
        output,
      ],
      'tools': [{'type': 'function', 'name': 'find', 'parameters': {}}],
      'tool_choice': 'required',
      'max_output_tokens': 9,
      'text': {'format': {'type': 'text'}},
    }
  )
  assert request.messages == [
    ChatMessage('system', 'be brief'),
    ChatMessage('system', 'be polite'),
    ChatMessage('user', 'go'),
    ChatMessage('assistant', '', (USE,)),
    ChatMessage('tool', 'one', answers='c1'),
  ]
  assert [x.name for x in request.tools] == ['find']
  assert request.ignored == ['max_output_tokens', 'tool_choice']
  assert responses.parse({'input': 'x'}).messages == [ChatMessage('user', 'x')]


@pytest.mark.parametrize(
  ('fields', 'sentence'),
  [
    ({'previous_response_id': 'r'}, 'previous_response_id'),
    ({'background': True}, 'background true'),
    ({'text': {'format': {'type': 'json_schema'}}}, 'text.format'),
    ({'tools': [{'type': 'web_search'}]}, 'web_search'),
    ({'input': [{'type': 'item_reference'}]}, 'item_reference'),
    ({'input': [{'role': 'robot', 'content': ''}]}, 'robot'),
    ({'input': 7}, 'input'),
  ],
)
def test_what_is_refused_by_name(fields, sentence):
  with errors.raises(RefusedError, sentence):
    responses.parse({'input': 'x', **fields})


def test_what_was_said_comes_back_as_one_message():
  body = responses.reply(ModelRequest(), REPLY)
  assert [x['type'] for x in body['output']] == ['message', 'function_call']
  graph = MessageGraph(chat_format.bare(WORDS), format_of('hermes'))
  n = graph.open(graph.prompt([ChatMessage('user', 'go')]), 9)
  graph.finish(n, [9, 10, 2], REPLY.message)
  output = {'type': 'function_call_output', 'call_id': 'c1', 'output': 'one'}
  again = responses.parse({'input': [user('go'), *body['output'], output]})
  assert graph.prompt(again.messages)[2:4] == (n, 0)  # parent, foreign


def test_a_reply_that_was_cut():
  body = responses.reply(ModelRequest(), REPLY._replace(finish='length'))
  assert body['status'] == 'incomplete'
  assert body['incomplete_details'] == {'reason': 'max_output_tokens'}
  assert body['usage']['total_tokens'] == 5
  # Calls that could be read are whole; what was cut is the text.
  statuses = [x['status'] for x in body['output']]
  assert statuses == ['incomplete', 'completed']
  assert responses.events(ModelRequest(), REPLY._replace(finish='length'))[-1][
    0
  ] == ('response.incomplete')


def test_a_stream_says_what_the_reply_says():
  events = responses.events(ModelRequest(), REPLY)
  assert [x['sequence_number'] for _, x in events] == list(range(len(events)))
  by_name = dict(events)
  assert by_name['response.output_text.delta']['delta'] == 'so'
  call = by_name['response.function_call_arguments.done']
  assert call['arguments'] == '{"x":1}'
  body = responses.reply(ModelRequest(), REPLY)
  assert by_name['response.completed']['response'] == body
  assert by_name['response.created']['response']['output'] == []
  done = [x['item'] for name, x in events if name.endswith('item.done')]
  assert done == body['output']
