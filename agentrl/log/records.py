"""A file that only grows, record by record, and that survives a kill.

A record is a head of fixed size, then its body, compressed by zlib. Head and
body carry a checksum each, so that what a kill tore off is told from what is
whole. The heads again, one after the other, are the file's index: it is never
needed, but it spares reading 100,000 records to find one of them.
docs/TRAJECTORIES.md is the format byte by byte.
"""

import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from absl import logging

from agentrl import storage

MARK = b'ATR1'
# What a list shows and is filtered by.
FACTS = np.dtype([
  ('step', '<i8'), ('task', '<i4'), ('group', '<i4'), ('member', '<i4'),
  ('phase', 'u1'), ('status', 'u1'), ('turns', '<u2'), ('tokens', '<u4'),
  ('outcome', '<f4'), ('reward', '<f4'),
])  # fmt: skip
HEAD = np.dtype([
  ('mark', 'S4'),
  ('at', '<u8'),  # where in the file the head begins, bytes
  ('size', '<u4'),  # of the compressed body, bytes
  ('crc', '<u4'),  # CRC-32 of the compressed body
  *((name, FACTS[name]) for name in FACTS.names),
  ('check', '<u4'),  # CRC-32 of the head up to here
])  # fmt: skip
LEVEL = 3  # of zlib: twice as fast as the default and hardly larger
_CHECKED = HEAD.itemsize - 4
_CHUNK = 1 << 20  # bytes searched at once


def index_of(path: pathlib.Path) -> pathlib.Path:
  return path.with_suffix('.index')


def heads(path: pathlib.Path, known: np.ndarray | None = None) -> np.ndarray:
  """The heads of a file's whole records, in order: [n] HEAD.

  Reads what the index does not have. Writes nothing.

  Args:
    known: what this function gave before, in place of the index
  """
  with path.open('rb') as f:
    found = _index(path) if known is None else known
    if not _fits(found, f):
      found = np.empty(0, HEAD)
    new = list(_scan(f, end(found)))
  return np.concatenate([found, np.array(new, HEAD)]) if new else found


def end(found: np.ndarray) -> int:
  """Where the last of the records ends, bytes."""
  if not len(found):
    return 0
  return int(found['at'][-1]) + HEAD.itemsize + int(found['size'][-1])


def body(path: pathlib.Path, head: np.void, most: int | None = None) -> bytes:
  """The body of one record.

  Args:
    most: bytes that it may have
  Raises:
    ValueError: it is damaged, or larger.
  """
  with path.open('rb') as f:
    f.seek(int(head['at']) + HEAD.itemsize)
    data = f.read(int(head['size']))
  if zlib.crc32(data) != head['crc']:
    raise ValueError(
      f'{path} is damaged at byte {head["at"]}; the records before and after'
      ' can still be read'
    )
  if most is None:
    return zlib.decompress(data)
  content = zlib.decompressobj().decompress(data, most + 1)
  if len(content) > most:
    raise ValueError(
      f'the record at byte {head["at"]} of {path} has more than {most}'
      ' bytes, all that there is room for; agentrl.log.trajectories reads it'
    )
  return content


class Appender:
  """Writes records behind the last whole one, and the index beside them.

  A record is with the operating system when `write` returns, so that SIGKILL
  costs at most the one that is being written.
  """

  def __init__(self, path: pathlib.Path, keep: np.ndarray):
    """Cuts the file behind the last of the records `keep`, as `heads` gave."""
    self._end, self._path = end(keep), path
    with storage.naming(path), path.open('ab') as f:
      f.truncate(self._end)
    storage.write(index_of(path), keep.tobytes())
    self._data, self._index = path.open('ab'), index_of(path).open('ab')

  def write(self, facts: np.void, content: bytes) -> None:
    """Appends one record; facts: of dtype FACTS."""
    packed = zlib.compress(content, LEVEL)
    head = np.zeros((), HEAD)
    for name in FACTS.names:
      head[name] = facts[name]
    head['mark'], head['at'] = MARK, self._end
    head['size'], head['crc'] = len(packed), zlib.crc32(packed)
    head['check'] = zlib.crc32(head.tobytes()[:_CHECKED])
    for file, what in ((self._data, packed), (self._index, b'')):
      with storage.naming(self._path):
        file.write(head.tobytes() + what)
        file.flush()
    self._end += HEAD.itemsize + len(packed)

  def flush(self) -> None:
    """Returns when the records are on disk."""
    with storage.naming(self._path):
      os.fsync(self._data.fileno())

  def close(self) -> None:
    self.flush()
    self._data.close()
    self._index.close()


def _index(path: pathlib.Path) -> np.ndarray:
  """The index, without a torn last head; nothing if a head is damaged."""
  try:
    data = index_of(path).read_bytes()
  except (FileNotFoundError, IsADirectoryError):
    return np.empty(0, HEAD)
  found = np.frombuffer(data[: len(data) - len(data) % HEAD.itemsize], HEAD)
  return found if all(map(_checked, found)) else np.empty(0, HEAD)


def _checked(head: np.void) -> bool:
  """Whether a head is as it was written."""
  return zlib.crc32(head.tobytes()[:_CHECKED]) == head['check']


def damaged(path: pathlib.Path, keep: np.ndarray, after: int) -> bool:
  """Whether what follows the records `keep` was a record of a step <= after.

  A kill tears records of later steps only: those before are on disk whole.
  """
  at = end(keep)
  with path.open('rb') as f:
    f.seek(at)
    data = f.read(HEAD.itemsize)
  if len(data) < HEAD.itemsize:
    return False  # torn
  head = np.frombuffer(data, HEAD)[0]
  return not _checked(head) or bool(head['step'] <= after)


def _fits(found: np.ndarray, f: BinaryIO) -> bool:
  """Whether the heads can be of this file: in order, and the last stands."""
  if not len(found):
    return True
  ends = found['at'] + np.uint64(HEAD.itemsize) + found['size']
  ordered = bool(np.all(found['at'][1:] >= ends[:-1]))
  return ordered and _whole(f, int(found['at'][-1])) == found[-1]


def _scan(f: BinaryIO, at: int) -> Iterator[np.void]:
  """Heads of the whole records from a byte on; what is not whole is said."""
  bad, last = at, f.seek(0, os.SEEK_END)
  while at < last:
    head = _whole(f, at)
    if head is None:
      at = _next_mark(f, at + 1, last)
      continue
    if at > bad:
      logging.warning('%s: %d bytes at %d are damaged', f.name, at - bad, bad)
    yield head
    bad = at = at + HEAD.itemsize + int(head['size'])
  if bad < last:
    logging.warning('%s: the last %d bytes are torn', f.name, last - bad)


def _next_mark(f: BinaryIO, at: int, last: int) -> int:
  """Where the next record may begin; `last` if nowhere."""
  while at < last:
    f.seek(at)
    chunk = f.read(_CHUNK)
    place = chunk.find(MARK)
    if place >= 0:
      return at + place
    at += max(len(chunk) - len(MARK) + 1, 1)  # a mark may lie across chunks
  return last


def _whole(f: BinaryIO, at: int) -> np.void | None:
  """The head of the record at a byte, if all of it is there."""
  f.seek(at)
  data = f.read(HEAD.itemsize)
  if len(data) < HEAD.itemsize:
    return None
  head = np.frombuffer(data, HEAD)[0]
  if head['mark'] != MARK or head['at'] != at or not _checked(head):
    return None
  content = f.read(int(head['size']))
  whole = len(content) == head['size'] and zlib.crc32(content) == head['crc']
  return head if whole else None
