"""Calls as tags named like the tool: <search>...</search>."""

import json
import re
from collections.abc import Iterator, Sequence

from agentrl.text.call_base import (
  DECODER,
  Call,
  Described,
  Format,
  Malformed,
  Read,
  quote,
  spoken,
)


def _only_argument(tool: Described) -> str:
  required = tool.schema.get('required', [])
  if len(required) != 1:
    raise ValueError(
      f"tool {tool.name!r} cannot be called in the format 'tagged': it takes"
      f' {required} and a tag holds one required argument; use another format'
    )
  return required[0]


def _parse_tagged(text: str, tools: Sequence[Described]) -> Read:
  """`<name>argument</name>`, the argument as it stands without outer space."""
  text = spoken(text)
  known = {tool.name: tool for tool in tools}
  only = {name: _only_argument(tool) for name, tool in known.items()}
  return list(_read_tags(text, known, only)) if known else []


def _read_tags(text, known, only) -> Iterator[Call | Malformed]:
  tag = re.compile('<(' + '|'.join(map(re.escape, known)) + ')>')
  found = tag.search(text)
  while found:
    name = found[1]
    close = text.find(f'</{name}>', found.end())
    if close < 0:
      yield Malformed(f'<{name}> was not ended; end it with </{name}>.')
      return
    inner = text[found.end() : close].strip()
    kind = known[name].schema['properties'][only[name]].get('type')
    if kind == 'string':
      yield Call(name, {only[name]: inner})
    else:
      yield _read_value(name, only[name], inner, kind)
    found = tag.search(text, close + len(f'</{name}>'))


def _read_value(name: str, argument: str, inner: str, kind) -> Call | Malformed:
  try:
    value, end = DECODER.raw_decode(inner)
  except (ValueError, RecursionError):
    end = -1
  if end != len(inner):
    return Malformed(
      f'<{name}> takes {argument} as a JSON {kind or "value"}, and this is'
      f' none: {quote(inner)}'
    )
  return Call(name, {argument: value})


def _write_tagged(calls: Sequence[Call]) -> str:
  """One argument each; a string stands as it is."""
  out = []
  for name, args in calls:
    (value,) = args.values()
    inner = value if isinstance(value, str) else json.dumps(value)
    out.append(f'<{name}>{inner}</{name}>')
  return '\n'.join(out)


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
  _parse_tagged, _write_tagged, _answer_tagged, _teach_tagged, 'user'
)
