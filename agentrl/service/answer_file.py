"""File of answers that were given: a JSON object a line, appended to.

What was answered is there after a kill, so that a resumed run asks nothing
twice and gets the same answers. Each line holds a checksum of itself: one that
was damaged is not read, and its question is asked again. Lines of before there
were checksums are read by their form alone.
"""

import hashlib
import json
import math
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from absl import logging

LONGEST = 2**24  # bytes of a line that is read
_TEXTS = ('key', 'answer')  # the other fields are numbers


class AnswerFile:
  """Answers by the content that was asked about; used by several threads."""

  def __init__(self, path: str | os.PathLike[str] | None):
    """Reads the answers that are there.

    Args:
      path: made with the first line; None: in memory only

    Raises:
      ValueError: the path is there, and is not a file that can be read.
    """
    self._path = None if path is None else pathlib.Path(path)
    self._lock = threading.Lock()
    self._answers: dict[str, str] = {}
    self._cost = 0.0
    self._damaged = 0
    self._end = ''  # of a line that was cut where a run was killed
    if self._path is not None and self._path.exists():
      self._read(self._path)

  @property
  def cost(self) -> float:
    """Of all that was asked, with what earlier runs have paid."""
    return self._cost

  @property
  def damaged(self) -> int:
    """Lines of the file that were not read."""
    return self._damaged

  def get(self, key: str) -> str | None:
    with self._lock:
      return self._answers.get(key)

  def put(self, key: str, answer: str, **facts: float) -> str:
    """Adds an answer -> the first to this question, which stays.

    Args:
      facts: of how it came about, for who reads the file; `cost` is summed
    """
    with self._lock:
      new = key not in self._answers
      if new or facts:
        self._append({'key': key, 'answer': answer, **facts})
      return self._answers.setdefault(key, answer)

  def note(self, **facts: float) -> None:
    """Adds what was asked in vain."""
    with self._lock:
      self._append(facts)

  def _append(self, line: dict[str, Any]) -> None:
    self._cost += line.get('cost', 0.0)
    if self._path is None:
      return
    self._path.parent.mkdir(parents=True, exist_ok=True)
    with self._path.open('a', encoding='utf-8') as file:
      text = json.dumps({**line, 'sum': _checksum(line)})
      file.write(f'{self._end}{text}\n')
    self._end = ''

  def _read(self, path: pathlib.Path) -> None:
    if not path.is_file():
      raise ValueError(f'{path} must be a file of answers; move it away')
    total, ended = 0, True
    try:
      with path.open('rb') as file:
        for line in _lines(file):
          ended = line.endswith(b'\n')
          if line.strip():
            total += 1
            self._take(line)
    except OSError as error:
      raise ValueError(
        f'{path} must be a file that can be read, got {error}'
      ) from error
    self._end = '' if ended else '\n'
    if self._damaged:
      logging.warning(
        '%s: %d of %d lines are cut or damaged; what they answered is asked'
        ' again.',
        path,
        self._damaged,
        total,
      )

  def _take(self, line: bytes) -> None:
    try:
      entry = parse_line(line)
    except (ValueError, RecursionError):
      self._damaged += 1
      return
    self._cost += entry.get('cost', 0.0)
    if 'key' in entry:
      self._answers.setdefault(entry['key'], entry['answer'])


def parse_line(line: bytes) -> dict[str, Any]:
  """Returns the fields of a line, without its checksum.

  Raises:
    ValueError, RecursionError: it is damaged, or not of an answer file.
  """
  entry = json.loads(line.decode(), object_pairs_hook=_object)
  if len(line) > LONGEST or not isinstance(entry, dict):
    raise ValueError('not a line of an answer file')
  if 'sum' in entry and entry.pop('sum') != _checksum(entry):
    raise ValueError('the checksum is another one')
  if not entry or ('key' in entry) != ('answer' in entry):
    raise ValueError('a key without an answer, or the other way round')
  for name, value in entry.items():
    right = isinstance(value, str) if name in _TEXTS else _is_amount(value)
    if not right:
      raise ValueError(f'{name} is of another type')
  return entry


def _lines(file: BinaryIO) -> Iterator[bytes]:
  """Returns the lines, of one that is too long only as much as shows it."""
  while line := file.readline(LONGEST + 1):
    rest = line
    while rest and not rest.endswith(b'\n'):
      rest = file.readline(LONGEST + 1)
    yield line if rest is line or not rest else line + b'\n'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Builds a JSON object. Raises ValueError where a name stands in it twice."""
  made = dict(pairs)
  if len(made) < len(pairs):
    raise ValueError('a name stands there twice')
  return made


def _is_amount(value: Any) -> bool:
  """Returns whether a value is a finite number from 0 on."""
  if isinstance(value, bool) or not isinstance(value, int | float):
    return False
  try:
    return value >= 0 and math.isfinite(value)
  except OverflowError:
    return False


def _checksum(line: dict[str, Any]) -> str:
  text = json.dumps(line, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def content_id(*content: Any) -> str:
  """Hashes a question: what it is put to, and all that it says."""
  text = json.dumps(content, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()
