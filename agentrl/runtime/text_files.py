"""Strict reading of foreign text and JSON.

A byte-order mark is dropped and all line ends become '\\n'. Unreadable input
raises ValueError with file and line: a pipe or a device, bytes that are not
UTF-8, JSON that is damaged, nested too deeply, or ambiguous.
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

  Opening a pipe would wait for its writer, and a device may never end.
  """
  try:
    mode = os.stat(path).st_mode
  except OSError as error:
    raise ValueError(f'{path} cannot be read: {error.strerror}') from error
  except ValueError as error:  # of a zero byte in the path
    raise ValueError(f'{path!r} cannot be read: {error}') from error
  if not stat.S_ISREG(mode):
    raise ValueError(
      f'{path} must be a regular file, got a folder, a pipe or a device'
    )


def lines(path: FilePath) -> Iterator[tuple[int, str]]:
  """Yields (number, line) of a file, without line ends.

  Raises:
    ValueError: it cannot be read, or a line is not UTF-8.
  """
  for number, line in enumerate(_lines(path), 1):
    yield number, line.removesuffix('\n')


def read(path: FilePath) -> str:
  """Reads the text of a file. Raises ValueError, see `lines`."""
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
  """Reads a JSON file. Raises ValueError, see `lines` and `parse`."""
  text = read(path)
  try:
    return parse(text)
  except ValueError as error:
    raise ValueError(f'{path}: {error}') from error


def parse(text: str) -> Any:
  """Parses JSON.

  Stricter than `json.loads`: floats are finite in float64, keys are distinct,
  and strings can be encoded in UTF-8.

  Raises:
    NotJSONError: for any fault.
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
    reason = f'it must be JSON ({error.msg} at character {error.colno})'
    raise NotJSONError(reason, error.lineno, torn=True) from error
  except RecursionError:
    reason = 'it is nested too deeply'
  except UnicodeEncodeError:
    reason = 'a string holds half of a surrogate pair'
  except ValueError as error:  # of `_finite` and the like, or of int()
    reason = str(error).partition(';')[0]
  raise NotJSONError(f'it must be usable JSON: {reason}', 1) from None


class NotJSONError(ValueError):
  """Error: a text is not JSON, or not usable.

  line: of the mistake, from 1
  torn: a syntax error, so the text may be the beginning of valid JSON
  """

  def __init__(self, reason: str, line: int, *, torn: bool = False):
    super().__init__(reason)
    self.line, self.torn = line, torn


def _constant(name: str) -> float:
  raise ValueError(f'numbers must be finite, got {name}')


def _finite(text: str) -> float:
  if math.isinf(x := float(text)):
    raise ValueError(f'numbers must be finite in float64, got {text[:40]}')
  return x


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  out = dict(pairs)
  if len(out) < len(pairs):
    counts = collections.Counter(name for name, _ in pairs)
    ((twice, _),) = counts.most_common(1)
    raise ValueError(f'keys must be distinct, got {twice[:40]!r} twice')
  return out
