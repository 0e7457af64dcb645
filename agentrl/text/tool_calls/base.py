"""Shared types and helpers of tool-call formats."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from agentrl.text import surrogates

_QUOTED = 200  # characters of a message that are repeated to its author


class Described(Protocol):
  """Tool as described to the model."""

  @property
  def name(self) -> str: ...

  @property
  def description(self) -> str: ...

  @property
  def schema(self) -> dict[str, Any]:
    """JSON Schema of an object: the arguments by name."""


class ToolDescription(NamedTuple):
  """Description of a tool, for a system text written before the tool exists."""

  name: str
  description: str
  schema: dict[str, Any]  # of its arguments


class Call(NamedTuple):
  name: str
  args: dict[str, Any]


class Malformed(NamedTuple):
  """Unreadable call, with the message to its author."""

  sentence: str


Read = list[Call | Malformed]
Range = tuple[int, int]  # of characters: the first, and the one behind the last


class Place(NamedTuple):
  """Call with its place in a text."""

  call: Call | Malformed
  whole: Range  # all of it, with its tags
  holds: Range  # where a `</think>` hides it; an end of -1: nobody knows
  argument: Range = (0, 0)  # the text of its arguments, inside of `whole`

  def moved(self, by: int) -> 'Place':
    """Shifts the place by characters."""
    ranges = ((a + by, b + by) for a, b in self[1:])
    return Place(self.call, *ranges)


class Format(NamedTuple):
  """Syntax of tool calls.

  locate: (text of a message, tools) -> its calls in order, with their places.
  write: calls -> text that `parse` reads as these calls; ValueError if that is
    impossible.
  answer: (name, text) of each answered call, in order -> the next message.
  teach: tools -> description of the tools and the format for a system prompt.
  role: of the message with the answers.
  """

  locate: Callable[[str, Sequence[Described]], list[Place]]
  write: Callable[[Sequence[Call]], str]
  answer: Callable[[Sequence[tuple[str, str]]], str]
  teach: Callable[[Sequence[Described]], str]
  role: str

  def parse(self, text: str, tools: Sequence[Described]) -> Read:
    """Parses the calls of a message in order."""
    return [place.call for place in self.locate(text, tools)]


def spoken(text: str) -> str:
  """Strips the thought from a message; an unfinished thought leaves ''."""
  thought, ended, rest = text.partition('</think>')
  if ended:
    return rest
  return '' if thought.lstrip().startswith('<think>') else text


# The place of a call that was taken for thought.
HIDDEN = Malformed(
  'An argument contains </think>, so the text before it was read as a thought'
  ' and this call was not made. Do not write </think> in arguments.'
)


def locate_spoken(text: str, read: Callable[[str], list[Place]]) -> list[Place]:
  """Finds the calls of a message outside its thought with `read`.

  A `</think>` in an argument hides its call and all calls before. These are not
  made, but each is reported as a fault.
  """
  before, text = _stripped(text)
  thought, ended, _ = text.partition('</think>')
  if ended and not thought.startswith('<think>'):
    end, places = len(thought), read(text)
    if any(x.holds[0] < end < x.holds[1] for x in places):
      hidden = [x.holds[0] < end for x in places]
      return [
        (place._replace(call=HIDDEN) if hides else place).moved(before)
        for place, hides in zip(places, hidden, strict=True)
      ]
  rest = spoken(text)
  skipped, inside = _stripped(rest)
  before += len(text) - len(rest) + skipped
  return [place.moved(before) for place in read(inside)]


def _stripped(text: str) -> tuple[int, str]:
  """Strips a text; returns it and the length of leading space."""
  return len(text) - len(text.lstrip()), text.strip()


def quote(text: str) -> str:
  text = text.strip()
  return text if len(text) <= _QUOTED else text[:_QUOTED] + '...'


def _constant(name: str):
  raise ValueError(f'{name} is not a JSON number')


def _float(digits: str) -> float:
  value = float(digits)
  return value if math.isfinite(value) else _constant(digits)


# As JSON spells it; one that stands in a text as it is was decoded from tokens.
_SURROGATE = re.compile(r'\\u[dD][89a-fA-F]')


class _Decoder(json.JSONDecoder):
  """Strict JSON decoder whose strings UTF-8 can encode."""

  def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
    value, end = super().raw_decode(s, idx)
    if _SURROGATE.search(s, idx, end):
      value = surrogates.replaced_in(value)
    return value, end


# A function of Python for each number lets other threads run between.
DECODER = _Decoder(
  parse_constant=_constant,
  parse_float=_float,
  parse_int=lambda digits: int(digits),
)
_BITS = 14_000  # of an integer; Python reads no more than 4300 digits


def foreign(value: Any) -> Iterator[Any]:
  """Yields the parts of a value that JSON cannot represent."""
  if isinstance(value, dict):
    yield from (key for key in value if type(key) is not str)
    value = list(value.values())
  if isinstance(value, list):
    for part in value:
      yield from foreign(part)
  elif isinstance(value, float):
    yield from () if math.isfinite(value) else (value,)
  elif type(value) is int:
    yield from (
      () if value.bit_length() < _BITS else ('an integer with too many digits',)
    )
  elif value is not None and type(value) not in (str, bool):
    yield value


def faithful(
  name: str,
  write: Callable[[Sequence[Call]], str],
  locate: Callable[[str, Sequence[Described]], list[Place]],
  tools: Callable[[Sequence[Call]], Sequence[Described]] = lambda calls: (),
) -> Callable[[Sequence[Call]], str]:
  """Wraps `write` to refuse calls that `locate` would not read back.

  Args:
    name: of the format.
    tools: of the calls, as needed by `locate`.
  """

  def checked(calls: Sequence[Call]) -> str:
    try:
      for call in calls:
        for part in foreign(call.args):
          raise ValueError(
            f'arguments of {call.name!r} must be JSON: strings, finite numbers,'
            ' True, False, None, lists and dictionaries, got'
            f' {quote(repr(part))}'
          )
      text = write(calls)
      places = locate(text, tools(calls))
      same = [place.call for place in places] == list(calls)
    except RecursionError:
      same = False
    if not same:
      raise ValueError(
        f'calls of {[call.name for call in calls]} cannot be written in the'
        f' format {name!r}, which would not read them back; change the'
        ' arguments, or use another format'
      )
    return text

  return checked


def properties(tool: Described) -> dict[str, Any]:
  """Returns the argument schemas by name; {} without properties."""
  schema = tool.schema.get('properties')
  return schema if isinstance(schema, dict) else {}


def schemas(tools: Sequence[Described]) -> str:
  """Renders one line of JSON per tool."""
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
  """Renders one line of JSON per answer."""
  return '\n'.join(
    json.dumps({'name': name, 'output': text}, ensure_ascii=False)
    for name, text in answers
  )
