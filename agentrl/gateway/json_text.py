"""JSON of clients and models, read within limits of its size and depth.

What is counted before it is read takes time and memory in proportion to the
text: a short text of many small lists is many times its size once it is read.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from agentrl.text import surrogates
from agentrl.text.tool_calls.base import DECODER

DEPTH = 64  # objects and lists inside each other
PARTS = 1 << 18  # strings, beginnings of objects and lists, commas
_PART = re.compile(
  r'[^"\[{,]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]|\Z)', re.DOTALL
)


def loads(raw: bytes | str) -> Any:
  """Returns the value of a text; half a surrogate pair in it reads as U+FFFD.

  Raises:
    ValueError: it is not JSON in UTF-8, is nested too deeply, or has too many
      parts; the message goes on behind 'the body'.
  """
  try:
    text = raw.decode('utf-8-sig') if isinstance(raw, bytes) else raw
    many = _has_many(text)
    value = None if many else DECODER.decode(text)
  except RecursionError:
    raise _too_deep() from None
  except ValueError as error:
    raise ValueError(f'must be valid JSON ({error})') from None
  if many:
    raise ValueError(
      f'has more than {PARTS} parts (strings, lists, objects, commas); send'
      ' fewer'
    )
  level: list[Any] = [value]
  for _ in range(DEPTH):
    level = [x for part in level for x in _inside(part)]
    if not level:
      return value
  raise _too_deep()


def dumps(value: Any) -> bytes:
  """Returns the text of a value, in UTF-8 whatever its strings hold."""
  text = json.dumps(value, ensure_ascii=False, separators=(',', ':'))
  return surrogates.replaced(text).encode()


def _has_many(text: str) -> bool:
  """Tells whether a text has more than PARTS parts."""
  # Those inside of strings too, but for most quotes that are escaped.
  most = sum(map(text.count, ('"', '[', '{', ',', '\\\\"')))
  if most - text.count('\\"') <= PARTS:
    return False
  # A loop of Python lets other threads run between.
  for count, part in enumerate(_PART.finditer(text)):
    if count == PARTS:
      return part.end() < len(text)
  return False


def _inside(value: Any) -> Iterable[Any]:
  """Returns the objects and lists inside a value."""
  if isinstance(value, dict):
    value = value.values()
  elif not isinstance(value, list):
    return ()
  return (x for x in value if isinstance(x, dict | list))


def _too_deep() -> ValueError:
  return ValueError(
    f'is nested more than {DEPTH} levels deep; send a flatter one'
  )
