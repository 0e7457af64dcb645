"""Calls as tags named like the tool: <search>...</search>."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from agentrl.text.tool_calls.base import (
  DECODER,
  Call,
  Described,
  Format,
  Malformed,
  Place,
  ToolDescription,
  faithful,
  locate_spoken,
  properties,
  quote,
)


def _tag(name: str) -> str:
  """Checks that the name of a tool is valid as a tag.

  Raises:
    ValueError: it is not.
  """
  if name == 'think' or not re.fullmatch(r'[^<>/\s]+', name):
    raise ValueError(
      f'tool {name!r} must have the name of a tag, other than think, in the'
      " format 'tagged'; rename it, or use another format"
    )
  return name


def _only_argument(tool: Described) -> str:
  _tag(tool.name)
  required = tool.schema.get('required', [])
  if not isinstance(required, list) or len(required) != 1:
    raise ValueError(
      f'tool {tool.name!r} must have exactly one required argument in the'
      f" format 'tagged', got {quote(str(required))}; use another format"
    )
  kind = _kind(tool, required[0])
  if not isinstance(kind, str):
    raise ValueError(
      f'argument {quote(repr(required[0]))} of tool {tool.name!r} must have one'
      f" type in the format 'tagged', got {quote(str(kind))}; use another"
    )
  return required[0]


def _kind(tool: Described, argument: str) -> Any:
  """Returns an argument's type in the schema: a name, several, or None."""
  schema = properties(tool).get(argument)
  return schema.get('type') if isinstance(schema, dict) else None


def _locate_tagged(text: str, tools: Sequence[Described]) -> list[Place]:
  """Finds `<name>argument</name>`; outer space of arguments is stripped."""
  only = {tool.name: _only_argument(tool) for tool in tools}
  kinds = {tool.name: _kind(tool, only[tool.name]) for tool in tools}
  read = partial(_read_tags, only=only, kinds=kinds)
  return locate_spoken(text, lambda x: list(read(x))) if only else []


def _read_tags(text: str, *, only, kinds) -> Iterator[Place]:
  tag = re.compile('<(' + '|'.join(map(re.escape, only)) + ')>')
  match = tag.search(text)
  while match:
    name, start = match[1], match.start()
    close = text.find(f'</{name}>', match.end())
    if close < 0:
      why = f'<{name}> was not closed; end it with </{name}>.'
      yield Place(Malformed(why), (start, len(text)), (start, -1))
      return
    inner = text[match.end() : close]
    # One that is opened twice may have been a thought's the first time.
    stop = -1 if match[0] in inner else close
    begin = close - len(inner.lstrip())
    inner = inner.strip()
    if kinds[name] == 'string':
      call: Call | Malformed = Call(name, {only[name]: inner})
    else:
      try:
        value, end = DECODER.raw_decode(inner)
      except (ValueError, RecursionError):
        end = -1
      call = Malformed(
        f'<{name}> takes {only[name]} as a JSON {kinds[name]}, got'
        f' {quote(inner)}'
      )
      if end == len(inner):
        call = Call(name, {only[name]: value})
    behind = close + len(f'</{name}>')
    argument = begin, begin + len(inner)
    yield Place(call, (start, behind), (start, stop), argument)
    match = tag.search(text, behind)


def _called(calls: Sequence[Call]) -> list[ToolDescription]:
  """Describes the tools of calls with one argument each.

  Raises:
    ValueError: a call does not have exactly one.
  """
  out = {}
  for call in calls:
    if len(call.args) != 1:
      raise ValueError(
        f'a call of {call.name!r} must have one argument in the format'
        f" 'tagged', got {len(call.args)}; use another format"
      )
    ((name, value),) = call.args.items()
    kind = 'string' if isinstance(value, str) else 'JSON'
    schema = {'properties': {name: {'type': kind}}, 'required': [name]}
    out[call.name] = ToolDescription(call.name, '', schema)
  return list(out.values())


def _write_tagged(calls: Sequence[Call]) -> str:
  """Writes calls with one argument each; strings are written verbatim."""
  _called(calls)  # raises where there are more
  lines = []
  for name, args in calls:
    for value in args.values():
      if not isinstance(value, str):
        value = json.dumps(value).replace('</', '<\\/')
      lines.append(f'<{name}>{value}</{name}>')
  return '\n'.join(lines)


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
  _locate_tagged,
  faithful('tagged', _write_tagged, _locate_tagged, _called),
  _answer_tagged,
  _teach_tagged,
  'user',
)
