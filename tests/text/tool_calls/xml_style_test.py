"""Calls as tags that hold one argument as it is."""

from typing import Any, NamedTuple

import pytest

from agentrl.text.tool_calls.base import Call
from agentrl.text.tool_calls.xml_style import TAGGED
from agentrl.tool import schema
from tests import errors


class Tool(NamedTuple):
  name: str
  description: str
  schema: dict[str, Any]


SEARCH = Tool('search', 'Looks.', schema.schema(['query'], query='string'))
ADD = Tool('add', 'Adds.', schema.schema(['numbers'], numbers='array'))


def test_text_stands_in_a_tag_as_it_is_and_lists_as_json():
  text = 'I look. <search> a "b" & c </search><add>[1, 2]</add>'
  assert TAGGED.parse(text, (SEARCH, ADD)) == [
    Call('search', {'query': 'a "b" & c'}),
    Call('add', {'numbers': [1, 2]}),
  ]


def test_a_tag_of_no_tool_is_text():
  assert TAGGED.parse('<find>a</find>', (SEARCH,)) == []


@pytest.mark.parametrize(
  'tool',
  [
    Tool('think', '', schema.schema(['x'], x='string')),
    Tool('a b', '', schema.schema(['x'], x='string')),
    Tool('two', '', schema.schema(['x', 'y'], x='string', y='string')),
  ],
)
def test_a_tool_that_makes_no_tag_is_named(tool):
  with errors.raises(ValueError, 'tagged') as e:
    TAGGED.teach((tool,))
  assert repr(tool.name) in str(e.value)


@pytest.mark.parametrize(
  'odd',
  [
    {'properties': {'x': True}, 'required': ['x']},
    {'properties': {'x': {'$ref': '#/$defs/a'}}, 'required': ['x']},
    {'required': ['x']},
    {'anyOf': [{'required': ['x']}]},
    {},
  ],
)
def test_a_schema_without_a_type_has_no_tag(odd):
  tool = Tool('find', '', odd)
  for use in (lambda: TAGGED.teach([tool]), lambda: TAGGED.parse('', [tool])):
    with errors.raises(ValueError, 'find'):
      use()
