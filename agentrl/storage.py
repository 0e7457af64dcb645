"""Files that are there whole or not at all, and what stands in their way."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from absl import logging


def write(path: str | os.PathLike, data: str | bytes) -> None:
  """Writes a file whole, on disk when it returns, or leaves what was there.

  A folder of that name is set aside.
  """
  path = pathlib.Path(path)
  part = path.with_name(path.name + '.part')
  for place in (part, path):
    if place.is_dir():
      set_aside(place, 'is a folder where a file is to be')
  content = data.encode() if isinstance(data, str) else data
  with naming(path), part.open('wb') as f:
    f.write(content)
    f.flush()
    os.fsync(f.fileno())
  part.replace(path)


def set_aside(path: pathlib.Path, why: str) -> pathlib.Path:
  """Renames what cannot be used, which may be somebody's; says so."""
  there = _free(path)
  path.rename(there)
  logging.warning('%s %s; it is now %s', path, why, there.name)
  return there


def copy_aside(path: pathlib.Path, why: str) -> pathlib.Path:
  """Copies a file that is about to be repaired; says so."""
  there = _free(path)
  shutil.copy(path, there)
  logging.warning('%s %s; as it was it is now %s', path, why, there.name)
  return there


def _free(path: pathlib.Path) -> pathlib.Path:
  names = (path.with_name(f'{path.name}.damaged.{i}') for i in range(1, 10**6))
  return next(p for p in names if not os.path.lexists(p))


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
  """The operating system's errors name the file, which `write` leaves out."""
  try:
    yield
  except OSError as error:
    if error.errno is not None and error.filename is None:
      error.filename = os.fspath(path)
    raise
