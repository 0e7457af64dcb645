"""Bodies of responses: answers in every form, and why there is none."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.service.chat_response import parse_response
from agentrl.service.json_post import Again


def body(message, reason='stop', **others):
  choice = {'index': 0, 'message': message, 'finish_reason': reason}
  return json.dumps({'choices': [choice], **others}).encode()


def part(text, kind='text'):
  return {'type': kind, 'text': text}


@pytest.mark.parametrize(
  ('content', 'text'),
  [
    ('7', '7'),
    ('', ''),
    ([part('7')], '7'),
    ([part('a '), part('b')], 'a b'),
    ([part('7', 'output_text')], '7'),
    ([{'type': 'thinking', 'thinking': 'no'}, part('7')], '7'),
    ([{'type': 'reasoning', 'text': '3'}, part('7')], '7'),
    ([{'type': 'image_url', 'image_url': {}}, part('7'), None, 3], '7'),
    ([part('')], ''),
  ],
)
def test_text_is_read_in_every_form(content, text):
  reply = parse_response(body({'content': content}))
  assert (reply.text, reply.fault, reply.cut) == (text, '', False)


TOOL_CALL = [{'id': '1', 'type': 'function', 'function': {'name': 'f'}}]


@pytest.mark.parametrize(
  ('message', 'reason', 'words'),
  [
    ({'content': None}, 'stop', 'without a text'),
    ({}, None, 'without a text'),
    ({'content': None, 'reasoning_content': 'so 7'}, 'stop', 'without a text'),
    ({'content': []}, 'stop', 'without a text'),
    ({'content': [{'type': 'thinking'}]}, 'stop', 'without a text'),
    ({'content': None, 'tool_calls': TOOL_CALL}, 'tool_calls', 'tool call'),
    ({'content': None, 'refusal': 'never'}, 'stop', 'refused .*: never'),
    ({'content': '', 'refusal': 'never'}, 'stop', 'refused .*: never'),
    (
      {'content': [{'type': 'refusal', 'refusal': 'never'}]},
      'stop',
      'refused .*: never',
    ),
    ({'content': 'x'}, 'content_filter', 'refused .*: content_filter'),
    ({'content': [part('7')]}, 'length', 'truncated after'),
    ({'content': None}, 'length', 'truncated after'),
  ],
)
def test_what_is_no_answer_says_why(message, reason, words):
  reply = parse_response(body(message, reason))
  assert re.search(words, reply.fault)
  assert reply.cut == (reason == 'length' and message['content'] is not None)


@pytest.mark.parametrize(
  'data',
  [
    b'',
    b'null',
    b'[]',
    b'{}',
    b'\xff',
    b'{"choices": {}}',
    b'{"choices": [null]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": {"text": "7"}}}]}',
    b'{"choices": [{"message": {"content": 7}}]}',
    b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}',
    b'{"choices": [{"message": {"content": [{"type":"text","text":7}]}}]}',
    b'[' * 100_000,
    b'{"choices":' * 50_000,
    b'9' * 5000,
  ],
)
def test_what_is_no_completion_is_asked_again(data):
  with pytest.raises(Again):
    parse_response(data)


@pytest.mark.parametrize(
  'value', ['NaN', '-1', '1.5', 'true', '"9"', 'null', '1e999', '[]', '9' * 40]
)
def test_a_number_of_tokens_that_is_none_is_not_said(value):
  data = body({'content': '7'}, usage={'prompt_tokens': 'x'})
  data = data.replace(b'"x"', value.encode())
  assert parse_response(data)[3:] == (None, None)


@pytest.mark.parametrize('usage', [None, [], 'x', 3, {}])
def test_a_usage_that_is_none_costs_no_answer(usage):
  reply = parse_response(body({'content': '7'}, usage=usage))
  assert reply == ('7', '', False, None, None)


@given(
  st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda x: (
      st.lists(x, max_size=3)
      | st.dictionaries(st.sampled_from(['type', 'text', 'refusal']), x)
    ),
  )
)
def test_any_content_is_a_text_or_a_fault(content):
  try:
    reply = parse_response(body({'content': content}))
  except Again:
    return
  assert isinstance(reply.text, str)
  assert reply.fault or content == reply.text or isinstance(content, list)
