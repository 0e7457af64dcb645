"""Calls as JSON: between tags (Hermes, Qwen), or all of a message (Llama 3)."""

import json
from collections.abc import Sequence

from agentrl.text.tool_calls.base import (
  DECODER,
  Call,
  Described,
  Format,
  Malformed,
  Placed,
  Read,
  answer_json,
  faithful,
  quote,
  read_spoken,
  schemas,
)

_OPEN, _CLOSE = '<tool_call>', '</tool_call>'


def _read_json(text: str, start: int, key: str) -> tuple[Call | Malformed, int]:
  """One call at a place in the text, and where it ends (-1: who knows)."""
  example = f'{{"name": "...", "{key}": {{...}}}}'
  while start < len(text) and text[start].isspace():
    start += 1
  try:
    value, end = DECODER.raw_decode(text, start)
  except (ValueError, RecursionError) as error:
    why = 'it is nested too deeply'
    if isinstance(error, ValueError):
      why = str(error.msg if isinstance(error, json.JSONDecodeError) else error)
    return Malformed(
      f'The call is not valid JSON ({why}): {quote(text[start:])}\n'
      f'Write it as {example}.'
    ), -1
  named = isinstance(value, dict) and isinstance(value.get('name'), str)
  if not (named and isinstance(value.get(key), dict)):
    return Malformed(
      f'A call is a JSON object with "name", a string, and "{key}", an object;'
      f' this is not: {quote(text[start:end])}\nWrite it as {example}.'
    ), end
  return Call(value['name'], value[key]), end


def _write_json(call: Call, key: str) -> str:
  """Without `</`, which could end a tag or a thought."""
  text = json.dumps({'name': call.name, key: call.args}, ensure_ascii=False)
  return text.replace('</', '<\\/')


def _parse_hermes(text: str, tools: Sequence[Described]) -> Read:
  del tools  # the text names what it calls
  return read_spoken(text, _read_hermes)


def _read_hermes(text: str) -> Placed:
  calls, at = [], 0
  while (opened := text.find(_OPEN, at)) >= 0:
    start = opened + len(_OPEN)
    call, end = _read_json(text, start, 'arguments')
    close = text.find(_CLOSE, max(start, end))
    if close < 0 and isinstance(call, Call):
      call = Malformed(f'A call was not ended; end each one with {_CLOSE}.')
    elif isinstance(call, Call) and text[end:close].strip():
      call = Malformed(
        f'After the call there is more: {quote(text[end:close])}\nWrite one'
        f' JSON object between {_OPEN} and {_CLOSE}.'
      )
    calls.append((opened, end, call))
    at = close + len(_CLOSE) if close >= 0 else len(text)
  return calls


def _write_hermes(calls: Sequence[Call]) -> str:
  return '\n'.join(
    f'{_OPEN}\n{_write_json(call, "arguments")}\n{_CLOSE}' for call in calls
  )


def _answer_hermes(answers: Sequence[tuple[str, str]]) -> str:
  tagged = (f'<tool_response>\n{x}\n</tool_response>' for _, x in answers)
  return '\n'.join(tagged)


def _teach_hermes(tools: Sequence[Described]) -> str:
  return (
    'These tools can be called; each line is one, with the schema of its'
    f' arguments:\n<tools>\n{schemas(tools)}\n</tools>\n'
    'A call is a JSON object between tags, and a message may hold several:\n'
    f'{_OPEN}\n{{"name": "...", "arguments": {{...}}}}\n{_CLOSE}'
  )


def _parse_llama_json(text: str, tools: Sequence[Described]) -> Read:
  """The whole message is calls, or none of it is."""
  del tools
  return read_spoken(text, _read_llama_json)


def _read_llama_json(text: str) -> Placed:
  calls, tag = [], '<|python_tag|>'
  at = len(tag) if text.startswith(tag) else 0
  if not (at or text.startswith('{')):
    return []
  while at >= 0:
    start = at
    call, at = _read_json(text, start, 'parameters')
    calls.append((start, at, call))
    rest = text[at:].strip() if at >= 0 else ''
    if not rest.strip(';'):
      return calls
    if not rest.startswith(';'):
      more = Malformed(
        f'After a call there is more: {quote(rest)}\nA message that calls'
        ' tools holds nothing but calls, with ; between them.'
      )
      calls[-1] = (start, at, more)
      return calls
    at = text.index(';', at) + 1
  return calls


def _write_llama_json(calls: Sequence[Call]) -> str:
  return '; '.join(_write_json(call, 'parameters') for call in calls)


def _teach_llama_json(tools: Sequence[Described]) -> str:
  return (
    'These functions can be called; each line is one, with the schema of its'
    f' parameters:\n{schemas(tools)}\n'
    'To call one, reply with nothing but'
    ' {"name": "...", "parameters": {...}}; to call several, put ; between'
    ' them.'
  )


HERMES = Format(
  _parse_hermes,
  faithful('hermes', _write_hermes, _parse_hermes),
  _answer_hermes,
  _teach_hermes,
  'user',
)
LLAMA = Format(
  _parse_llama_json,
  faithful('llama_json', _write_llama_json, _parse_llama_json),
  answer_json,
  _teach_llama_json,
  'ipython',
)
