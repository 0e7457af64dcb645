"""JSONL files that grow line by line, each with an index beside it.

A line is one JSON object. The index `<name>.index` has a head of fixed size for
each line: its offset, its checksum, and the facts that a list shows. The index
is optional: it is rebuilt from the lines if it is missing or stale, and saves
reading 100,000 lines to find one of them.
"""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from agentrl.runtime import storage
from agentrl.types import Status

PHASES = ('sft', 'rl', 'eval')  # of metrics.jsonl as well; append only
# Facts that a list shows and is filtered by.
FACTS = np.dtype(
  [
    ('step', '<i8'),
    ('task', '<i4'),
    ('group', '<i4'),
    ('member', '<i4'),
    ('phase', 'u1'),
    ('status', 'u1'),
    ('turns', '<u2'),
    ('tokens', '<u4'),
    ('outcome', '<f4'),
    ('reward', '<f4'),
  ]
)
FACT_NAMES = FACTS.names or ()
HEAD = np.dtype(
  [
    ('at', '<u8'),  # where in the file the line begins, bytes
    ('size', '<u4'),  # of the line with its end, bytes
    ('crc', '<u4'),  # CRC-32 of the same
    *((name, FACTS[name]) for name in FACT_NAMES),
    ('check', '<u4'),  # CRC-32 of the head up to here
  ]
)


def strict(x: Any) -> Any:
  """Spells non-finite floats, which JSON lacks, as words."""
  if isinstance(x, Mapping):
    return {k: strict(v) for k, v in x.items()}
  if isinstance(x, list | tuple):
    return [strict(v) for v in x]
  return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def facts(trajectory: Mapping[str, Any]) -> np.void:
  """Returns the FACTS of a trajectory, fresh or read back."""
  t, turns = np.zeros(1, FACTS)[0], trajectory['turns']
  for name in ('step', 'task', 'group', 'member'):
    t[name] = trajectory[name]
  for name in ('outcome', 'reward'):
    t[name] = float(trajectory[name])  # or a word, such as 'nan'
  t['phase'] = PHASES.index(trajectory['phase'])
  t['status'] = Status[trajectory['status'].upper()]
  t['turns'] = min(len(turns), 2**16 - 1)
  t['tokens'] = sum(len(x['said']['tokens']) for x in turns)
  return t


def index_of(path: storage.Path) -> storage.Path:
  return path.with_suffix('.index')


def end(heads: np.ndarray) -> int:
  """Returns the end of the last line, bytes."""
  return int(heads['at'][-1]) + int(heads['size'][-1]) if len(heads) else 0


def read_heads(
  path: storage.Path, before: np.ndarray | None = None
) -> np.ndarray:
  """Reads the heads of a file's whole lines, in order: [n] HEAD.

  Scans lines that the index lacks. Writes nothing.

  Args:
    before: an earlier result, used in place of the index
  """
  size, heads = storage.size_of(path), before
  if heads is None or not _stands(path, heads, size):
    heads = _index(path, size)
    heads = heads if _stands(path, heads, size) else np.empty(0, HEAD)
  start = end(heads)
  new = list(_scan(path, storage.read(path, start, size), start))
  return np.concatenate([heads, np.array(new, HEAD)]) if new else heads


def body(path: storage.Path, head: np.void, most: int | None = None) -> bytes:
  """Reads the JSON of one line.

  Args:
    most: bytes allowed
  Raises:
    ValueError: it is damaged, or larger.
  """
  at, size = int(head['at']), int(head['size'])
  if most is not None and size > most:
    raise ValueError(
      f'the line at byte {at} of {path} must have at most {most} bytes; read'
      ' it with agentrl.log.trajectories'
    )
  line = storage.read(path, at, at + size)
  if zlib.crc32(line) != head['crc']:
    raise ValueError(
      f'{path} is damaged at byte {at}; other lines can still be read'
    )
  return line[:-1]


def is_damaged(path: storage.Path, keep: np.ndarray, after: int) -> bool:
  """Returns whether the first dropped line belongs to a step <= after.

  A kill only tears lines of later steps: earlier ones are on disk whole.
  """
  line, newline, _ = storage.read(path, end(keep)).partition(b'\n')
  if not newline:
    return False  # torn
  parsed = _parse(line)
  return parsed is None or bool(parsed['step'] <= after)


class ShardWriter:
  """Appends lines after the last whole one, and to the index."""

  def __init__(self, path: storage.Path, keep: np.ndarray):
    """Truncates the file after the lines `keep`, a prefix of read_heads."""
    storage.write(index_of(path), keep.tobytes())
    self._lines = storage.Appender(path, end(keep))
    self._index = storage.Appender(index_of(path), keep.nbytes)

  @property
  def size(self) -> int:
    return self._lines.size

  def write(self, entry: np.void, content: bytes) -> None:
    """Appends one object with its FACTS."""
    line = content + b'\n'
    head = _head(entry, self.size, line)
    self._lines.write(line)
    self._index.write(head.tobytes())

  def flush(self) -> None:
    """Flushes the lines to disk; the index may lag."""
    self._lines.flush()

  def close(self) -> None:
    self._lines.close()
    self._index.close()


def _head(entry: np.void, at: int, line: bytes) -> np.void:
  head = np.zeros(1, HEAD)[0]
  for name in FACT_NAMES:
    head[name] = entry[name]
  head['at'], head['size'], head['crc'] = at, len(line), zlib.crc32(line)
  head['check'] = zlib.crc32(head.tobytes()[: HEAD.itemsize - 4])
  return head


def _index(path: storage.Path, size: int) -> np.ndarray:
  """Reads the index up to the file's end; empty if it is damaged."""
  file = index_of(path)
  if not file.exists() or file.is_dir():
    return np.empty(0, HEAD)
  data = file.read_bytes()
  n = len(data) // HEAD.itemsize
  heads = np.frombuffer(data[: n * HEAD.itemsize], HEAD)
  for i, check in enumerate(heads['check'].tolist()):
    first = i * HEAD.itemsize
    if zlib.crc32(data[first : first + HEAD.itemsize - 4]) != check:
      return np.empty(0, HEAD)
  return heads[heads['at'] + heads['size'] <= size]


def _stands(path: storage.Path, heads: np.ndarray, size: int) -> bool:
  """Returns whether heads match this file: ordered, with its last line."""
  if not len(heads):
    return True
  ends = heads['at'] + heads['size']
  if np.any(heads['at'][1:] < ends[:-1]) or end(heads) > size:
    return False
  line = storage.read(path, int(heads['at'][-1]), end(heads))
  return zlib.crc32(line) == heads['crc'][-1]


def _scan(path: storage.Path, data: bytes, at: int) -> Iterator[np.void]:
  """Yields heads of the whole lines of `data`, at offset `at` of the file."""
  *lines, torn = data.split(b'\n')
  for line in lines:
    entry = _parse(line)
    if entry is None:
      logging.warning('%s: %d bytes at %d are damaged', path, len(line), at)
    else:
      yield _head(entry, at, line + b'\n')
    at += len(line) + 1
  if torn:
    logging.warning('%s: the last %d bytes are torn', path, len(torn))


def _parse(line: bytes) -> np.void | None:
  """Parses the FACTS of a line; None if it is not a trajectory."""
  try:
    return facts(json.loads(line))
  except (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    RecursionError,
    AttributeError,
  ):
    return None
