"""Calls as tags named like the tool: <search>...</search>."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from agentrl.text.tool_calls.base import (
  DECODER,
  Call,
  Described,
  Format,
  Malformed,
  Placed,
  Read,
  faithful,
  quote,
  read_spoken,
)


def _tag(name: str) -> str:
  """The name of a tool, which has to make a tag of its own.

  Raises:
    ValueError: it does not.
  """
  if name == 'think' or not re.fullmatch(r'[^<>/\s]+', name):
    raise ValueError(
      f"tool {name!r} cannot be called in the format 'tagged':"
      f' {f"<{name}>"!r} is no tag, or that of thoughts; rename it, or use'
      ' another format'
    )
  return name


def _only_argument(tool: Described) -> str:
  _tag(tool.name)
  required = tool.schema.get('required', [])
  if len(required) != 1:
    raise ValueError(
      f"tool {tool.name!r} cannot be called in the format 'tagged': it takes"
      f' {required} and a tag holds one required argument; use another format'
    )
  kind = _kind(tool, required[0])
  if not isinstance(kind, str):
    raise ValueError(
      f"tool {tool.name!r} cannot be called in the format 'tagged':"
      f' {required[0]!r} is of type {kind}, and a tag holds text of one type;'
      ' use another format'
    )
  return required[0]


def _kind(tool: Described, argument: str) -> Any:
  """What its schema says of the type: its name, several, or nothing."""
  return tool.schema['properties'][argument].get('type')


def _parse_tagged(text: str, tools: Sequence[Described]) -> Read:
  """`<name>argument</name>`, the argument as it stands without outer space."""
  only = {tool.name: _only_argument(tool) for tool in tools}
  kinds = {tool.name: _kind(tool, only[tool.name]) for tool in tools}
  read = partial(_read_tags, only=only, kinds=kinds)
  return read_spoken(text, lambda x: list(read(x))) if only else []


def _read_tags(text: str, *, only, kinds) -> Iterator[Placed]:
  tag = re.compile('<(' + '|'.join(map(re.escape, only)) + ')>')
  found = tag.search(text)
  while found:
    name, start = found[1], found.start()
    close = text.find(f'</{name}>', found.end())
    if close < 0:
      unended = f'<{name}> was not ended; end it with </{name}>.'
      yield start, -1, Malformed(unended)
      return
    inner = text[found.end() : close]
    # One that is opened twice may have been a thought's the first time.
    stop = -1 if found[0] in inner else close
    inner = inner.strip()
    if kinds[name] == 'string':
      yield start, stop, Call(name, {only[name]: inner})
    else:
      call = _read_value(name, only[name], inner, kinds[name])
      yield start, stop, call
    found = tag.search(text, close + len(f'</{name}>'))


def _read_value(
  name: str, argument: str, inner: str, kind: str
) -> Call | Malformed:
  try:
    value, end = DECODER.raw_decode(inner)
  except (ValueError, RecursionError):
    end = -1
  if end != len(inner):
    return Malformed(
      f'<{name}> takes {argument} as a JSON {kind}, and this is'
      f' none: {quote(inner)}'
    )
  return Call(name, {argument: value})


class _Called(NamedTuple):
  """A tool, as far as a call of it shows."""

  name: str
  description: str
  schema: dict[str, Any]


def _called(calls: Sequence[Call]) -> list[_Called]:
  """The tools of calls with one argument each.

  Raises:
    ValueError: one has none, or several.
  """
  out = {}
  for call in calls:
    if len(call.args) != 1:
      raise ValueError(
        f"call of {call.name!r} cannot be written in the format 'tagged': it"
        f' has {len(call.args)} arguments and a tag holds one; use another'
        ' format'
      )
    ((name, value),) = call.args.items()
    kind = 'string' if isinstance(value, str) else 'JSON'
    schema = {'properties': {name: {'type': kind}}, 'required': [name]}
    out[call.name] = _Called(call.name, '', schema)
  return list(out.values())


def _write_tagged(calls: Sequence[Call]) -> str:
  """One argument each; a string stands as it is."""
  _called(calls)  # raises where there are more
  return '\n'.join(
    f'<{name}>{_inner(value)}</{name}>'
    for name, args in calls
    for value in args.values()
  )


def _inner(value: Any) -> str:
  if isinstance(value, str):
    return value
  return json.dumps(value).replace('</', '<\\/')


def _answer_tagged(answers: Sequence[tuple[str, str]]) -> str:
  return '\n'.join(f'<result>\n{text}\n</result>' for _, text in answers)


def _teach_tagged(tools: Sequence[Described]) -> str:
  lines = (
    f'<{tool.name}>{_only_argument(tool)}</{tool.name}>  {tool.description}'
    for tool in tools
  )
  return (
    'These tools can be called, each by writing its tags with the argument'
    ' between them; the answer follows as <result>...</result>:\n'
    + '\n'.join(lines)
  )


TAGGED = Format(
  _parse_tagged,
  faithful('tagged', _write_tagged, _parse_tagged, _called),
  _answer_tagged,
  _teach_tagged,
  'user',
)
