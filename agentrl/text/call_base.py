"""What the formats of tool calls have in common."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

_QUOTED = 200  # characters of a message that are repeated to its author


class Described(Protocol):
  """What the model is told of a tool."""

  name: str
  description: str
  schema: dict[str, Any]  # JSON Schema of an object: the arguments by name


class Call(NamedTuple):
  name: str
  args: dict[str, Any]


class Malformed(NamedTuple):
  """A call that cannot be read, and what to tell its author."""

  sentence: str


Read = list[Call | Malformed]


class Format(NamedTuple):
  """One way to write calls.

  parse: (text of a message, tools) -> its calls in order; [] if it makes none.
  write: calls -> the text that `parse` reads as these calls.
  answer: (name, text) of each answered call, in order -> the next message.
  teach: tools -> what a system prompt says of them and of the format.
  role: whose message the answers are.
  """

  parse: Callable[[str, Sequence[Described]], Read]
  write: Callable[[Sequence[Call]], str]
  answer: Callable[[Sequence[tuple[str, str]]], str]
  teach: Callable[[Sequence[Described]], str]
  role: str


def spoken(text: str) -> str:
  """The message without its thought; nothing while the thought goes on."""
  thought, ended, rest = text.partition('</think>')
  if ended:
    return rest
  return '' if thought.lstrip().startswith('<think>') else text


def quote(text: str) -> str:
  text = text.strip()
  return text if len(text) <= _QUOTED else text[:_QUOTED] + '...'


def _constant(name: str):
  raise ValueError(f'{name} is no number of JSON')


DECODER = json.JSONDecoder(parse_constant=_constant)


def schemas(tools: Sequence[Described]) -> str:
  """One line of JSON for each tool."""
  return '\n'.join(
    json.dumps(
      {
        'type': 'function',
        'function': {
          'name': tool.name,
          'description': tool.description,
          'parameters': tool.schema,
        },
      },
      ensure_ascii=False,
    )
    for tool in tools
  )


def answer_json(answers: Sequence[tuple[str, str]]) -> str:
  """One line of JSON for each answer."""
  return '\n'.join(
    json.dumps({'name': name, 'output': text}, ensure_ascii=False)
    for name, text in answers
  )
