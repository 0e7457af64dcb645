"""JSONL files that grow line by line, each with an index beside it.

A line is one JSON object. The index `<name>.index` has a head of fixed size
for each line: where it stands, its checksum, and the facts that a list shows.
The index is never needed, and is made again from the lines where it is missing
or is not of this file; it spares reading 100,000 lines to find one of them.
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
HEAD = np.dtype(
  [
    ('at', '<u8'),  # where in the file the line begins, bytes
    ('size', '<u4'),  # of the line with its end, bytes
    ('crc', '<u4'),  # CRC-32 of the same
    *((name, FACTS[name]) for name in FACTS.names),
    ('check', '<u4'),  # CRC-32 of the head up to here
  ]
)


def strict(x: Any) -> Any:
  """Spells non-finite floats, for which JSON has no number, as words."""
  if isinstance(x, Mapping):
    return {k: strict(v) for k, v in x.items()}
  if isinstance(x, list | tuple):
    return [strict(v) for v in x]
  return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def facts(trajectory: Mapping[str, Any]) -> np.void:
  """The FACTS of a trajectory, of one that was read back as well."""
  t, turns = np.zeros((), FACTS), trajectory['turns']
  for name in ('step', 'task', 'group', 'member'):
    t[name] = trajectory[name]
  for name in ('outcome', 'reward'):
    t[name] = float(trajectory[name])  # or a word, such as 'nan'
  t['phase'] = PHASES.index(trajectory['phase'])
  t['status'] = Status[trajectory['status'].upper()]
  t['turns'] = min(len(turns), 2**16 - 1)
  t['tokens'] = sum(len(x['said']['tokens']) for x in turns)
  return t[()]


def index_of(path: storage.Path) -> storage.Path:
  return path.with_suffix('.index')


def end(heads: np.ndarray) -> int:
  """Returns the end of the last line, bytes."""
  return int(heads['at'][-1]) + int(heads['size'][-1]) if len(heads) else 0


def read_heads(
  path: storage.Path, before: np.ndarray | None = None
) -> np.ndarray:
  """The heads of a file's whole lines, in order: [n] HEAD.

  Reads what the index does not have. Writes nothing.

  Args:
    before: what this function gave before, in place of the index
  """
  size, heads = storage.size_of(path), before
  if heads is None or not _stands(path, heads, size):
    heads = _index(path, size)
    heads = heads if _stands(path, heads, size) else np.empty(0, HEAD)
  start = end(heads)
  new = list(_scan(path, storage.read(path, start, size), start))
  return np.concatenate([heads, np.array(new, HEAD)]) if new else heads


def body(path: storage.Path, head: np.void, most: int | None = None) -> bytes:
  """The JSON of one line.

  Args:
    most: bytes that it may have
  Raises:
    ValueError: it is damaged, or larger.
  """
  at, size = int(head['at']), int(head['size'])
  if most is not None and size > most:
    raise ValueError(
      f'the line at byte {at} of {path} has more than {most} bytes, all that'
      ' there is room for; agentrl.log.trajectories reads it'
    )
  line = storage.read(path, at, at + size)
  if zlib.crc32(line) != head['crc']:
    raise ValueError(
      f'{path} is damaged at byte {at}; the lines before and after can still be'
      ' read'
    )
  return line[:-1]


def is_damaged(path: storage.Path, keep: np.ndarray, after: int) -> bool:
  """Returns whether the line after those that stay belongs to a step <= after.

  A kill tears lines of later steps only: those before are on disk whole.
  """
  line, newline, _ = storage.read(path, end(keep)).partition(b'\n')
  if not newline:
    return False  # torn
  parsed = _parse(line)
  return parsed is None or bool(parsed['step'] <= after)


class ShardWriter:
  """Writes lines behind the last whole one, and the index beside them."""

  def __init__(self, path: storage.Path, keep: np.ndarray):
    """Cuts the file behind the last of the lines `keep`, as read_heads gave."""
    storage.write(index_of(path), keep.tobytes())
    self._lines = storage.Appender(path, end(keep))
    self._index = storage.Appender(index_of(path), keep.nbytes)

  @property
  def size(self) -> int:
    return self._lines.size

  def write(self, entry: np.void, content: bytes) -> None:
    """Appends one object, of these FACTS."""
    line = content + b'\n'
    head = _head(entry, self.size, line)
    self._lines.write(line)
    self._index.write(head.tobytes())

  def flush(self) -> None:
    """Returns when the lines are on disk; the index may lag."""
    self._lines.flush()

  def close(self) -> None:
    self._lines.close()
    self._index.close()


def _head(entry: np.void, at: int, line: bytes) -> np.void:
  head = np.zeros((), HEAD)
  for name in FACTS.names:
    head[name] = entry[name]
  head['at'], head['size'], head['crc'] = at, len(line), zlib.crc32(line)
  head['check'] = zlib.crc32(head.tobytes()[: HEAD.itemsize - 4])
  return head[()]


def _index(path: storage.Path, size: int) -> np.ndarray:
  """The index, without heads of what is not there; nothing if it is damaged."""
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
  """Returns whether heads match this file: ordered, its last line there."""
  if not len(heads):
    return True
  ends = heads['at'] + heads['size']
  if np.any(heads['at'][1:] < ends[:-1]) or end(heads) > size:
    return False
  line = storage.read(path, int(heads['at'][-1]), end(heads))
  return zlib.crc32(line) == heads['crc'][-1]


def _scan(path: storage.Path, data: bytes, at: int) -> Iterator[np.void]:
  """Heads of the whole lines of `data`, which begins at a byte of the file."""
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
  """The FACTS of a line; None if it is no trajectory."""
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
