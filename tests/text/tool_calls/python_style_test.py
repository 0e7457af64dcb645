"""Calls as a list in Python: written, read again, and what is none."""

import pytest

from agentrl.text.tool_calls import python_style
from agentrl.text.tool_calls.base import Call, Malformed, ToolDescription

PYTHONIC = python_style.PYTHONIC


def test_a_name_that_python_does_not_take_stands_in_a_dictionary():
  calls = [Call('f', {'x': 1, 'from': 2, 'a b': [None, True]}), Call('g.h', {})]
  text = PYTHONIC.write(calls)
  assert text.startswith('[f(x=1, **{')
  assert PYTHONIC.parse(text, ()) == calls


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('[f(1)]', 'Every argument must be named'),
    ('[f(x=g())]', 'Arguments must be plain values'),
    ('[f(x=1, **{"x": 2})]', 'An argument is given twice'),
    ('[f(x=1)', 'cannot be read'),
    ('[f(x=1)] + [g()]', 'must be a list of calls only'),
  ],
)
def test_what_is_no_call_becomes_a_sentence(text, words):
  (call,) = PYTHONIC.parse(text, ())
  assert isinstance(call, Malformed)
  assert words in call[0]


def test_a_list_of_numbers_calls_nothing():
  assert PYTHONIC.parse('[1, 2]', ()) == []


@pytest.mark.parametrize(
  'odd', [{}, {'properties': {'x': True}}, {'anyOf': []}]
)
def test_any_schema_can_be_taught(odd):
  tool = ToolDescription('find', '', odd)
  assert 'find' in PYTHONIC.teach([tool])
