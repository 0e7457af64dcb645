"""Text and JSON that others wrote, read in one way everywhere.

A byte-order mark is left out, and all line ends are '\\n'. What cannot be read
is a ValueError that names the file and the line: a pipe or a device, bytes that
are not UTF-8, JSON that is damaged, nested too deeply, or ambiguous.
"""

import collections
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from typing import Any

FilePath = str | os.PathLike[str]
_SURROGATE = re.compile(r'\\u[dD][89a-fA-F]')  # escaped: perhaps half a pair


def regular(path: FilePath) -> None:
  """Raises ValueError unless the path is a regular file.

  To open a pipe would wait for its writer, and a device may never end.
  """
  try:
    mode = os.stat(path).st_mode
  except OSError as error:
    raise ValueError(f'{path} cannot be read: {error.strerror}') from error
  except ValueError as error:  # of a zero byte in the path
    raise ValueError(f'{path!r} cannot be read: {error}') from error
  if not stat.S_ISREG(mode):
    raise ValueError(
      f'{path} cannot be read: it must be a regular file, and it is a folder, a'
      ' pipe or a device'
    )


def lines(path: FilePath) -> Iterator[tuple[int, str]]:
  """(number, line) of each line of a file, without its end.

  Raises:
    ValueError: it cannot be read, or a line is not UTF-8.
  """
  for number, line in enumerate(_lines(path), 1):
    yield number, line.removesuffix('\n')


def read(path: FilePath) -> str:
  """The text of a file. Raises ValueError, see `lines`."""
  return ''.join(_lines(path))


def _lines(path: FilePath) -> Iterator[str]:
  regular(path)
  try:
    with open(path, encoding='utf-8-sig', errors='surrogateescape') as file:
      for number, line in enumerate(file, 1):
        if not line.isascii():
          _check_utf8(line, f'{path}, line {number}')
        yield line
  except OSError as error:
    raise ValueError(f'{path} cannot be read: {error.strerror}') from error


def _check_utf8(line: str, where: str) -> None:
  try:
    line.encode()
  except UnicodeEncodeError as error:
    byte = ord(line[error.start]) & 0xFF
    raise ValueError(
      f'{where} must be UTF-8, got byte 0x{byte:02x} at character'
      f' {error.start + 1}; save the file as plain text in UTF-8'
    ) from None


def read_json(path: FilePath) -> Any:
  """The value of a JSON file. Raises ValueError, see `lines` and `parse`."""
  text = read(path)
  try:
    return parse(text)
  except ValueError as error:
    raise ValueError(f'{path}: {error}') from error


def parse(text: str) -> Any:
  """The value of a JSON text.

  Stricter than `json.loads`: numbers are finite in float64 where they have a
  point or an exponent, keys are distinct, and texts can be encoded in UTF-8.

  Raises:
    NotJSONError: whatever is wrong with it.
  """
  try:
    value = json.loads(
      text,
      parse_constant=_constant,
      parse_float=_finite,
      object_pairs_hook=_distinct,
    )
    if _SURROGATE.search(text):
      json.dumps(value, ensure_ascii=False).encode()
    return value
  except json.JSONDecodeError as error:
    reason = f'it is no JSON ({error.msg} at character {error.colno})'
    raise NotJSONError(reason, error.lineno, torn=True) from error
  except RecursionError:
    reason = 'it is nested too deeply'
  except UnicodeEncodeError:
    reason = 'a text holds half of a surrogate pair, which is no character'
  except ValueError as error:  # of `_finite` and the like, or of int()
    reason = str(error).partition(';')[0]
  raise NotJSONError(f'it is no JSON that can be used: {reason}', 1) from None


class NotJSONError(ValueError):
  """A text that is no JSON, or none that can be used.

  line: of the text, where the mistake is, from 1 on
  torn: it is no JSON, so that it may be the beginning of some
  """

  def __init__(self, reason: str, line: int, *, torn: bool = False):
    super().__init__(reason)
    self.line, self.torn = line, torn


def _constant(name: str) -> float:
  raise ValueError(f'{name} is no number of JSON')


def _finite(text: str) -> float:
  if math.isinf(x := float(text)):
    raise ValueError(f'the number {text[:40]} is too large')
  return x


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  out = dict(pairs)
  if len(out) < len(pairs):
    counts = collections.Counter(name for name, _ in pairs)
    ((twice, _),) = counts.most_common(1)
    raise ValueError(f'an object must have the key {twice[:40]!r} once')
  return out
