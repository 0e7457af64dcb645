"""Halves of surrogate pairs read as U+FFFD, and nothing else changes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_format, surrogates, tokenizer
from agentrl.text.chat_template import Message
from agentrl.text.tool_calls import FORMATS, format_of
from agentrl.text.tool_calls.base import DECODER, Call, ToolDescription
from tests import checkpoints

ANY = st.text(st.characters(categories=('Cs', 'L', 'P', 'So')), max_size=8)
VALUES = st.recursive(
  ANY | st.integers() | st.booleans() | st.none(),
  lambda x: st.lists(x, max_size=3) | st.dictionaries(ANY, x, max_size=3),
  max_leaves=6,
)
SCHEMA = {
  'type': 'object',
  'properties': {'x': {'type': 'string'}},
  'required': ['x'],
}


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_a_value_is_the_same_but_for_them(value):
  got = surrogates.replaced_in(value)
  json.dumps(got, ensure_ascii=False).encode()
  try:
    json.dumps(value, ensure_ascii=False).encode()
  except UnicodeEncodeError:
    return
  assert got == value


@pytest.mark.parametrize(
  ('text', 'want'),
  [
    ('a\ud83db', 'a\ufffdb'),
    ('\ude00', '\ufffd'),
    ('\ude00\ud83d', '\ufffd\ufffd'),
    ('😀\ud800', '😀\ufffd'),
    ('', ''),
  ],
)
def test_each_half_is_a_replacement_character(text, want):
  assert surrogates.replaced(text) == want
  assert surrogates.replaced_in([{text: text}]) == [{want: want}]


@pytest.mark.parametrize(
  ('text', 'want'),
  [
    (r'"\ud83d\ude00"', '😀'),  # a pair is a character
    (r'"\ud83d"', '\ufffd'),
    (r'"\uDE00\ud83d"', '\ufffd\ufffd'),
    (r'{"\uD83D": ["\udfff"]}', {'\ufffd': ['\ufffd']}),
    (r'"\\ud83d"', r'\ud83d'),  # a backslash that is spelled out
  ],
)
def test_json_that_spells_them(text, want):
  assert DECODER.decode(text) == want


MADE = {
  'hermes': '<tool_call>\n{"name": "f", "arguments": {"x": "\\ud83d"}}'
  '\n</tool_call>',
  'llama_json': '{"name": "f", "parameters": {"x": "\\ud83d"}}',
  'llama_pythonic': "[f(x='\\ud83d')]",
  'tagged': '<f>\\ud83d</f>',
}


@pytest.mark.parametrize('name', FORMATS)
def test_calls_that_a_model_writes(name):
  """In every format, read and written again."""
  tool = ToolDescription('f', '', SCHEMA)
  (call,) = format_of(name).parse(MADE[name], [tool])
  assert isinstance(call, Call)
  json.dumps(call, ensure_ascii=False).encode()
  want = '\\ud83d' if name == 'tagged' else '\ufffd'  # a tag holds plain text
  assert call.args == {'x': want}
  (again,) = format_of(name).parse(format_of(name).write([call]), [tool])
  assert again == call


def test_names_and_keys_of_a_call():
  text = (
    '<tool_call>{"name": "\\ud83d", "arguments": {"\\ude00": 1}}</tool_call>'
  )
  (call,) = format_of('hermes').parse(text, ())
  assert call == ('\ufffd', {'\ufffd': 1})


@pytest.mark.parametrize('half', ['\ud83d', 'a\ude00b', '\ud83d\ud83d'])
def test_tokenizers_encode_them(tmp_path, half):
  checkpoints.chat(tmp_path, 'chatml')
  folder = tokenizer.HuggingFace(tmp_path)
  for words in (tokenizer.Embedded(), folder):
    for specials in (False, True):
      ids = words.encode(half, specials=specials)
      assert words.decode(ids) == surrogates.replaced(half)
  ids = folder.encode_whole(half, specials=False)
  assert folder.decode(ids) == surrogates.replaced(half)
  talk = chat_format.named(str(tmp_path)).start([Message('user', half)])
  assert surrogates.replaced(half) in folder.decode(talk.ids)
