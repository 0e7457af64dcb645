"""Binary logs of trajectories, as runs wrote them before JSONL: a reader.

A record is a head of fixed size, then JSON compressed by zlib; head and body
carry a CRC-32 each, so that damage costs the record it is in and no other.
"""

import zlib

import numpy as np
from absl import logging

from agentrl.log import shards
from agentrl.runtime import storage

MARK = b'ATR1'
HEAD = np.dtype(
  [
    ('mark', 'S4'),
    ('at', '<u8'),  # where in the file the head begins, bytes
    ('size', '<u4'),  # of the compressed body, bytes
    ('crc', '<u4'),  # CRC-32 of the compressed body
    *((name, shards.FACTS[name]) for name in shards.FACTS.names),
    ('check', '<u4'),  # CRC-32 of the head up to here
  ]
)


def read_heads(path: storage.Path) -> np.ndarray:
  """The whole records of a file, in order: [n] shards.HEAD."""
  data, at, heads, lost = path.read_bytes(), 0, [], 0
  while (mark := data.find(MARK, at)) >= 0:
    head = np.frombuffer(
      data[mark : mark + HEAD.itemsize].ljust(HEAD.itemsize), HEAD
    )[0]
    end = mark + HEAD.itemsize + int(head['size'])
    whole = (
      head['at'] == mark
      and zlib.crc32(head.tobytes()[:-4]) == head['check']
      and zlib.crc32(data[mark + HEAD.itemsize : end]) == head['crc']
    )
    lost += mark - at + (not whole)
    at = end if whole else mark + 1
    if whole:
      heads.append(tuple(head[name] for name in shards.HEAD.names))
  if lost + len(data) - at:
    logging.warning('%s: %d bytes are damaged', path, lost + len(data) - at)
  return np.array(heads, shards.HEAD)


def body(path: storage.Path, head: np.void, most: int | None = None) -> bytes:
  """The JSON of one record.

  Args:
    most: bytes that it may have
  Raises:
    ValueError: it is damaged, or larger.
  """
  at = int(head['at'])
  start = at + HEAD.itemsize
  data = storage.read(path, start, start + int(head['size']))
  if zlib.crc32(data) != head['crc']:
    raise ValueError(
      f'{path} is damaged at byte {at}; the records before and after can still'
      ' be read'
    )
  content = zlib.decompressobj().decompress(
    data, 0 if most is None else most + 1
  )
  if most is not None and len(content) > most:
    raise ValueError(
      f'the record at byte {at} of {path} has more than {most} bytes, all that'
      ' there is room for; agentrl.log.trajectories reads it'
    )
  return content
