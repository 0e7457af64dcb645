"""Files of JSON objects: JSON lines, or one JSON value."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FilePath = str | os.PathLike[str]


def documents(path: FilePath) -> Iterator[tuple[str, Mapping[str, Any]]]:
  """(place, object) of each object; places are 'line 3', or 'entry 3'.

  A file of JSON lines is read line by line, and any other as a whole: one
  object, a list of them, or an object of columns.

  Raises:
    ValueError: names the file, the line and the fix.
  """
  if not Path(path).is_file():
    raise ValueError(f'{path} is no file; give one of JSON lines')
  with open(path, encoding='utf-8') as file:
    first = next((line for line in file if line.strip()), '')
  try:
    lines = isinstance(json.loads(first), dict)
  except ValueError:
    lines = False  # of one value over several lines, or damaged
  with open(path, encoding='utf-8') as file:
    if not lines:
      yield from _whole(path, file.read())
      return
    for n, line in enumerate(file, 1):
      if line.strip():
        yield (
          f'line {n}',
          _object(path, f'line {n}', _parsed(path, n, line.strip())),
        )


def _whole(
  path: FilePath, text: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
  value = _parsed(path, 1, text)
  if isinstance(value, dict) and isinstance(value.get('completion'), list):
    columns = {k: x for k, x in value.items() if isinstance(x, list)}
    rows = zip(*columns.values(), strict=False)
    value = [dict(zip(columns, row, strict=True)) for row in rows]
  for n, x in enumerate(value if isinstance(value, list) else [value], 1):
    yield f'entry {n}', _object(path, f'entry {n}', x)


def _parsed(path: FilePath, line: int, text: str) -> Any:
  try:
    return json.loads(text)
  except json.JSONDecodeError as error:
    raise ValueError(
      f'{path}, line {line + error.lineno - 1}: it is no JSON ({error.msg} at'
      f' character {error.colno}); correct or remove the line'
    ) from error


def _object(path: FilePath, where: str, x: Any) -> Mapping[str, Any]:
  if isinstance(x, dict):
    return x
  raise ValueError(
    f'{path}, {where}: it is {str(x)[:40]!r} and no JSON object; write one in'
    ' braces'
  )
