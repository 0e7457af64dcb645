"""Digests of conversations: equal for what a client may write otherwise."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_messages as lib
from agentrl.text.chat_messages import ChatMessage, ToolUse
from agentrl.text.tool_calls.base import ToolDescription

TOOL = ToolDescription('find', 'Finds.', {'type': 'object', 'properties': {}})
VALUES = st.recursive(
  st.text(max_size=4)
  | st.integers()
  | st.floats(allow_nan=False, allow_infinity=False)
  | st.booleans()
  | st.none(),
  lambda x: (
    st.lists(x, max_size=3)
    | st.dictionaries(st.text(max_size=3), x, max_size=3)
  ),
  max_leaves=8,
)


def said(arguments, id='c1', name='f', text=''):
  return ChatMessage('assistant', text, (ToolUse(id, name, arguments),))


def digest(arguments):
  return lib.digest_after(b'', said(arguments))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_arguments_are_their_value(value):
  """However they are spaced, escaped and in order."""
  backwards = dict(reversed(value.items()))
  ways = {
    json.dumps(value),
    json.dumps(backwards, indent=2, ensure_ascii=False),
    lib.canonical_json(value),
  }
  assert len({digest(x) for x in ways}) == 1


@pytest.mark.parametrize(
  'texts',
  [
    ('1', '1.0', '1e0', '10E-1', '0.1e+1', ' 1 '),
    ('0', '-0', '-0.0', '0e9'),
    ('100', '1e2', '1.0E2'),
    ('12345678901234567890', '12345678901234567000', '1.2345678901234567e19'),
    ('0.1', '1e-1', '0.10'),
    ('[1, {"a": 2.0}]', '[1.0,{"a":2}]'),
    ('{"b": 1, "a": "\\u00e9\\/"}', '{"a":"é/","b":1.0}'),
    ('"\\ud83d\\ude00"', '"😀"'),
    ('{"a": 1, "a": 2}', '{"a": 2}'),
  ],
)
def test_equal_values(texts):
  for x in texts:
    assert digest(x) == digest(texts[0])
    assert digest(f'{{"x":{x}}}') == digest(f'{{"x":{texts[0]}}}')


def test_different_values():
  """In one call, or in what is around it."""
  texts = ['1', 'true', '"1"', '[1]', '{"1":1}', '1.5', 'null', '0', 'false']
  texts += [
    '-1',
    '""',
    '[]',
    '{}',
    '[[]]',
    '"a"',
    'a',
    '',
    '{',
    '[null]',
    '1 1',
  ]
  texts += ['1e400x', '{"a":1}', '{"a":"1"}', '{"A":1}', '[1,1]', '[[1],1]']
  messages = [said(x) for x in texts]
  messages += [
    said('1', id='c2'),
    said('1', name='g'),
    said('1', text='1'),
    ChatMessage('assistant', '1'),
    ChatMessage('user', '1'),
    ChatMessage('tool', '1', answers='c1'),
    ChatMessage('tool', '1', answers='c2'),
    said('1')._replace(calls=said('1').calls * 2),
  ]
  assert len({lib.digest_after(b'', x) for x in messages}) == len(messages)


@pytest.mark.parametrize(
  'deep', ['[' * 5000 + ']' * 5000, '9' * 5000, '"\\ud83d"']
)
def test_arguments_of_any_text(deep):
  assert digest(deep) == digest(deep) != digest('1')


MESSAGES = st.lists(
  st.builds(
    ChatMessage,
    st.sampled_from(['user', 'assistant', 'tool']),
    st.text('ab\ud83d', max_size=2),
  ),
  max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(MESSAGES, MESSAGES)
def test_a_digest_is_of_the_whole_conversation(one, two):
  first, second = lib.digests([TOOL], one), lib.digests([TOOL], two)
  assert len(first) == len(one) + 1
  for i in range(len(one) + 1):
    for j in range(len(two) + 1):
      assert (first[i] == second[j]) == (one[:i] == two[:j])
  other = lib.digests([TOOL._replace(description='')], one)
  assert not {*first} & {*other}


def test_neighbours_of_the_agent_are_one():
  several = [said('1'), ChatMessage('user', 'x'), said('2', text='a')]
  assert list(lib.joined(several)) == several
  (one,) = lib.joined([several[0], several[2]])
  assert one == ('assistant', 'a', several[0].calls + several[2].calls, '')
