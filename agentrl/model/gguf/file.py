"""A GGUF file: its settings, and where its tensors are.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package `gguf`
parses the header, which takes seconds for a large vocabulary; tensors are then
read by their offsets alone.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.domain import Whole
from agentrl.runtime import install, text_files

# What the package raises for a damaged header.
_DAMAGED = (
  ValueError,
  LookupError,
  MemoryError,
  OverflowError,
  RecursionError,
)


@dataclasses.dataclass(frozen=True)
class StoredTensor:
  """Place of a tensor in a GGUF file, row by row, maybe quantized.

  shape: as of a checkpoint, the last axis contiguous
  kind: name of its GGML type, such as 'Q4_1'
  offset, row_bytes: of its data; of a row along the last axis
  """

  shape: tuple[int, ...]
  kind: str
  offset: int
  row_bytes: int


@dataclasses.dataclass(frozen=True)
class Header:
  """Settings of a GGUF file by name, and its tensors."""

  path: pathlib.Path
  settings: Mapping[str, Any]
  tensors: Mapping[str, StoredTensor]

  def __post_init__(self):
    parts = self.settings.get('split.count', 1)
    Whole(0).check(f'{self.path}: split.count', parts)
    if parts > 1:
      raise ValueError(
        f'{self.path} is one of {parts} parts; join them with'
        ' `llama-gguf-split --merge`, and give the whole file'
      )


def package():
  """Imports the package `gguf`; ValueError with the command if it is missing.

  Returns: the module
  """
  try:
    import gguf
  except ImportError as e:
    raise ValueError(
      f'a GGUF file is read with the package gguf; {install.command("gguf")}'
    ) from e
  return gguf


def read(path: pathlib.Path) -> Header:
  """Reads the header of a GGUF file.

  Raises:
    ValueError: the file is missing, cut off, no GGUF file, one of several
      parts, or has tensors in a type that cannot be read.
  """
  if not os.path.exists(path):
    raise ValueError(f'{path} does not exist; give the path of a GGUF file')
  text_files.regular(path)
  try:
    reader = _strict_reader()(path)
    settings = {name: x.contents() for name, x in reader.fields.items()}
  except OSError as e:
    raise ValueError(f'{path} cannot be read: {e.strerror}') from e
  except _DAMAGED as e:
    words = ' '.join(str(e).split())[:200]
    raise ValueError(
      f'{path} must be a whole GGUF file ({words}); download it again'
    ) from e
  if reader.byte_order == 'S':
    raise ValueError(
      f'{path} must be little-endian, got big-endian; convert it with'
      ' `gguf-convert-endian`'
    )
  tensors = {}
  for x in reader.tensors:
    shape = tuple(int(n) for n in reversed(x.shape))
    rows = int(np.prod(shape[:-1]))
    if x.data_offset + x.n_bytes > path.stat().st_size:
      raise ValueError(
        f'{path} ends before the data of {x.name}; download it again'
      )
    tensors[x.name] = StoredTensor(
      shape=shape,
      kind=x.tensor_type.name,
      offset=int(x.data_offset),
      row_bytes=int(x.n_bytes) // max(rows, 1),
    )
  _check_places(path, tensors, reader.data_offset, int(reader.alignment))
  _check_kinds(path, tensors)
  return Header(path=path, settings=settings, tensors=tensors)


def _strict_reader() -> type:
  """Returns the package's reader, made to raise at the end of the file.

  As it is, it reads less than it was asked for, and an array whose count is
  damaged is read for hours.
  """

  base: Any = package().GGUFReader

  class Reader(base):
    def _get(self, offset, dtype, count=1, **more):
      out = super()._get(offset, dtype, count, **more)
      if len(out) < count:
        raise ValueError('it ends within its header or a tensor')
      return out

  return Reader


def _check_places(
  path: pathlib.Path,
  tensors: Mapping[str, StoredTensor],
  start: int,
  alignment: int,
) -> None:
  """Raises ValueError unless tensors follow each other, as the format says.

  A place or a type that is damaged would give other numbers.
  """
  for name, x in sorted(tensors.items(), key=lambda item: item[1].offset):
    if x.offset != start:
      raise ValueError(
        f'{path}: tensor {name} must begin at byte {start}, behind the one'
        f' before it, got {x.offset}; download it again'
      )
    end = start + int(np.prod(x.shape[:-1])) * x.row_bytes
    start = -(-end // alignment) * alignment


def _check_kinds(
  path: pathlib.Path, tensors: Mapping[str, StoredTensor]
) -> None:
  """Dequantizes a row of each type; ValueError for one that cannot be read."""
  first = {x.kind: (name, x) for name, x in reversed([*tensors.items()])}
  for kind, (name, x) in first.items():
    try:
      rows(path, x, slice(0, 1))
    except (NotImplementedError, ValueError, KeyError) as e:
      raise ValueError(
        f'{path}: tensor {name} is of type {kind}, which the package gguf does'
        ' not dequantize; choose a file of another quantization'
      ) from e


def rows(
  path: pathlib.Path, stored: StoredTensor, index: slice | np.ndarray
) -> np.ndarray:
  """Reads rows of a tensor as float32: [n, last axis]; a vector is one row.

  index: of the leading axes, flattened into one
  """
  gguf = package()
  count = int(np.prod(stored.shape[:-1]))
  data = np.memmap(
    path,
    np.uint8,
    mode='r',
    offset=stored.offset,
    shape=(count, stored.row_bytes),
  )
  kind = gguf.GGMLQuantizationType[stored.kind]
  taken = np.ascontiguousarray(data[index])
  return np.asarray(gguf.dequantize(taken, kind), np.float32)
