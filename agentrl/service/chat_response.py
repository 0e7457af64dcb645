"""Parses responses of OpenAI-compatible servers."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.service import json_post

_MOST_TOKENS = 2**31  # of a response; a larger number is a mistake
# What a body that is no chat completion raises when it is read.
_MISTAKES = (
  ValueError,
  LookupError,
  TypeError,
  AttributeError,
  RecursionError,
)
_TEXT_PARTS = ('text', 'output_text')


class Reply(NamedTuple):
  """Response of a server."""

  text: str
  fault: str  # why it is no answer; '': it is one
  cut: bool  # it is the beginning of one, whose tokens were spent
  read: int | None  # tokens; None: the server does not say
  written: int | None  # tokens


def parse_response(data: bytes) -> Reply:
  """Parses the body of a response. Raises Again for an invalid one."""
  try:
    response = json.loads(data)
    choice = response['choices'][0]
    message, reason = choice['message'], choice.get('finish_reason')
    text, refusal = _text(message.get('content')), _refusal(message)
    called = message.get('tool_calls') or message.get('function_call')
  except _MISTAKES as error:
    text = f'an invalid chat completion ({type(error).__name__})'
    raise json_post.Again(text) from None
  usage = response.get('usage')
  read = _tokens(usage, 'prompt_tokens')
  written = _tokens(usage, 'completion_tokens')
  fault, cut = '', reason == 'length' and text is not None
  if reason == 'length':
    spent = 'some' if written is None else written
    fault = f'was truncated after {spent} tokens; raise max_tokens'
  elif refusal or reason == 'content_filter':
    fault = f'refused to answer: {(refusal or reason)[: json_post.SHOWN]}'
  elif text is None and called:
    fault = 'answered with a tool call, not with a text'
  elif text is None:
    why = f'finish_reason {reason!r}'[: json_post.SHOWN]
    fault = f'answered without a text ({why})'
  return Reply(text or '', fault, cut, read, written)


def _text(content: Any) -> str | None:
  """Returns a message's text, also of parts; None without text."""
  if content is None or isinstance(content, str):
    return content
  if not isinstance(content, list):
    raise TypeError(f'content must be text, got {type(content).__name__}')
  # What a model thought, and what is not text, is no part of its answer.
  texts = [
    part['text']
    for part in content
    if isinstance(part, Mapping) and part.get('type') in _TEXT_PARTS
  ]
  return ''.join(texts) if texts else None


def _refusal(message: Mapping[str, Any]) -> str:
  """Returns why the server's model refused; '' if it did not."""
  content = message.get('content')
  parts = content if isinstance(content, list) else []
  reasons = [
    part.get('refusal')
    for part in (message, *parts)
    if isinstance(part, Mapping)
  ]
  return ' '.join(str(x) for x in reasons if x)


def _tokens(usage: Any, name: str) -> int | None:
  """Returns the tokens used, if the response states a number."""
  value = usage.get(name) if isinstance(usage, Mapping) else None
  if isinstance(value, bool) or not isinstance(value, int):
    return None
  return value if 0 <= value <= _MOST_TOKENS else None
