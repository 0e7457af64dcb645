"""Calls as JSON: between tags (Hermes, Qwen), or all of a message (Llama 3)."""

import json
from collections.abc import Sequence

from agentrl.text.tool_calls.base import (
  DECODER,
  Call,
  Described,
  Format,
  Malformed,
  Place,
  Range,
  answer_json,
  faithful,
  locate_spoken,
  quote,
  schemas,
)

_OPEN, _CLOSE = '<tool_call>', '</tool_call>'


def _read_json(text: str, start: int, key: str) -> tuple[Call | Malformed, int]:
  """Reads one call at a place in the text, and where it ends (-1: unknown)."""
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


def _member(text: str, start: int, key: str) -> Range:
  """Finds where the value of a key stands in the JSON object that is there.

  The last one where the key is written twice: the one that is read.
  """
  at, place = _skip(text, text.index('{', start) + 1), (0, 0)
  while text[at] != '}':
    name, at = DECODER.raw_decode(text, at)
    begin = _skip(text, at)
    _, end = DECODER.raw_decode(text, begin)
    place, at = (begin, end) if name == key else place, _skip(text, end)
  return place


def _skip(text: str, at: int) -> int:
  """Returns the place behind what stands between the parts of an object."""
  return len(text) - len(text[at:].lstrip(' \t\n\r,:'))


def _write_json(call: Call, key: str) -> str:
  """Writes JSON without `</`, which could end a tag or a thought."""
  text = json.dumps({'name': call.name, key: call.args}, ensure_ascii=False)
  return text.replace('</', '<\\/')


def _locate_hermes(text: str, tools: Sequence[Described]) -> list[Place]:
  del tools  # the text names what it calls
  return locate_spoken(text, _read_hermes)


def _read_hermes(text: str) -> list[Place]:
  places, at = [], 0
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
    at = close + len(_CLOSE) if close >= 0 else len(text)
    place = Place(call, (opened, at), (opened, end))
    if isinstance(call, Call):
      place = place._replace(argument=_member(text, start, 'arguments'))
    places.append(place)
  return places


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


def _locate_llama_json(text: str, tools: Sequence[Described]) -> list[Place]:
  """Finds calls that are the whole message; else none of it is one."""
  del tools
  return locate_spoken(text, _read_llama_json)


def _read_llama_json(text: str) -> list[Place]:
  """Reads calls; the first one has the tag, and separators belong to none."""
  places, tag = [], '<|python_tag|>'
  at = len(tag) if text.startswith(tag) else 0
  if not (at or text.startswith('{')):
    return []
  while at >= 0:
    start = at
    call, at = _read_json(text, start, 'parameters')
    whole = start if places else 0, at if at >= 0 else len(text)
    place = Place(call, whole, (start, at))
    if isinstance(call, Call):
      place = place._replace(argument=_member(text, start, 'parameters'))
    places.append(place)
    rest = text[at:].strip() if at >= 0 else ''
    if not rest.strip(';'):
      return places
    if not rest.startswith(';'):
      more = Malformed(
        f'After a call there is more: {quote(rest)}\nA message that calls'
        ' tools holds nothing but calls, with ; between them.'
      )
      places[-1] = place._replace(call=more)
      return places
    at = text.index(';', at) + 1
  return places


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
  _locate_hermes,
  faithful('hermes', _write_hermes, _locate_hermes),
  _answer_hermes,
  _teach_hermes,
  'user',
)
LLAMA = Format(
  _locate_llama_json,
  faithful('llama_json', _write_llama_json, _locate_llama_json),
  answer_json,
  _teach_llama_json,
  'ipython',
)
