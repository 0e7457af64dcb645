"""Calls as JSON: between tags, or all of a message."""

from agentrl.text.tool_calls import json_style
from agentrl.text.tool_calls.base import Call

CALLS = [Call('f', {'x': 1, 'text': 'a</tool_call>b'}), Call('g', {})]


def test_calls_come_back_in_their_order():
  for style in (json_style.HERMES, json_style.LLAMA):
    assert list(style.parse(style.write(CALLS), ())) == CALLS


def test_only_a_whole_message_calls_as_llama():
  text = json_style.LLAMA.write(CALLS[:1])
  assert json_style.LLAMA.parse(f'I call {text}', ()) == []
  assert (
    len(
      json_style.HERMES.parse(
        f'I call {json_style.HERMES.write(CALLS[:1])}', ()
      )
    )
    == 1
  )
