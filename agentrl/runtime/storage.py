"""Files of a run, on disk or in a bucket (gs://), written atomically.

A path is a pathlib.Path, or an epath.Path where it begins with gs://; both
have read_bytes, exists, is_dir, iterdir and the like. This module adds what
the two do differently: atomic and appending writes, renaming, removing.
"""

import base64
import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from absl import logging
from etils import epath

from agentrl.runtime import install

if TYPE_CHECKING:
  Path = pathlib.Path  # of which both have the same methods
else:
  Path = pathlib.Path | epath.Path
SCHEME = 'gs://'
UPLOAD = 10.0  # seconds between uploads of what is appended in a bucket
_CHUNK = 1 << 24  # bytes


def path(name: str | os.PathLike) -> Path:
  """Returns the path of a name. Raises ValueError for a bucket out of reach."""
  text = os.fspath(name)
  if not text.startswith(SCHEME):
    return pathlib.Path(text)
  _reach(text.removeprefix(SCHEME).partition('/')[0])
  return epath.Path(text)


def absolute(name: str | os.PathLike) -> str:
  """Makes a name stand from any folder; one in a bucket does already."""
  text = os.fspath(name)
  if text.startswith(SCHEME):
    return text.rstrip('/')
  return os.path.abspath(text)


def in_bucket(place: Path) -> bool:
  return not isinstance(place, pathlib.Path)


def write(name: str | os.PathLike, data: str | bytes) -> None:
  """Writes a file whole, on disk when it returns, or leaves what was there.

  A folder of that name is set aside.
  """
  place, content = path(name), data.encode() if isinstance(data, str) else data
  if in_bucket(place):
    _bucket().pipe_file(str(place), content)
    return
  part = place.with_name(place.name + '.part')
  for x in (part, place):
    if x.is_dir():
      set_aside(x, 'is a folder where a file is to be')
  with naming(place), part.open('wb') as f:
    f.write(content)
    f.flush()
    os.fsync(f.fileno())
  part.replace(place)


@contextlib.contextmanager
def shared(place: pathlib.Path) -> Iterator[None]:
  """Gives a file that a library writes inside the mode of any new file.

  A library that writes a temporary file first leaves it to its owner alone.
  """
  place.touch()
  mode = stat.S_IMODE(place.stat().st_mode)
  try:
    yield
  except BaseException:
    place.unlink(missing_ok=True)
    raise
  place.chmod(mode)


def write_once(name: str | os.PathLike, data: str) -> bytes:
  """Reads what a file holds; writes it if it is not there."""
  if path(name).exists():
    return read(path(name))
  write(name, data)
  return data.encode()


def create(place: Path, data: bytes) -> None:
  """Writes a file that must be new. Raises FileExistsError."""
  if in_bucket(place):
    if place.exists():
      raise FileExistsError(str(place))
    # Of two at once the bucket refuses one (the precondition of generation 0).
    _bucket().pipe_file(str(place), data, mode='create')
    return
  with place.open('xb') as f:
    f.write(data)
    f.flush()
    os.fsync(f.fileno())


def check_regular(place: Path) -> None:
  """Raises ValueError for what is there and not a file.

  Reading a pipe would wait for its writer, and a device may never end.
  """
  if place.exists() and not place.is_file():
    raise ValueError(f'{place} must be a regular file; remove it')


def read(place: Path, start: int = 0, end: int | None = None) -> bytes:
  """Returns the bytes [start, end) of a file."""
  if in_bucket(place):
    start, size = min(start, size_of(place)), size_of(place)
    end = size if end is None else min(end, size)
    # A range of no bytes is one that no server gives.
    return _bucket().cat_file(str(place), start, end) if start < end else b''
  with place.open('rb') as f:
    f.seek(start)
    return f.read(-1 if end is None else max(end - start, 0))


def size_of(place: Path) -> int:
  """Returns the size of a file in bytes."""
  if in_bucket(place):
    return _bucket().info(str(place))['size']
  return place.stat().st_size


def modified(place: Path) -> float:
  """Returns the time of change in seconds, by the file system's clock."""
  if in_bucket(place):
    return _bucket().info(str(place))['mtime'].timestamp()
  return place.stat().st_mtime


def files(folder: Path) -> dict[str, int]:
  """Returns the files below a folder, by their path in it, with their sizes."""
  if in_bucket(folder):
    sizes = _bucket().find(str(folder), detail=True)
    first = len(str(folder).removeprefix(SCHEME)) + 1
    return {x[first:]: info['size'] for x, info in sizes.items()}
  paths = sorted(x for x in folder.rglob('*') if x.is_file())
  return {str(x.relative_to(folder)): x.stat().st_size for x in paths}


def digest(place: Path, like: str = '') -> str:
  """Hashes the content: SHA-256, or as md5:... the one that a bucket keeps.

  Args:
    like: a digest to be compared with, which says what to compute
  """
  if in_bucket(place) and (not like or like.startswith('md5:')):
    md5 = _bucket().info(str(place)).get('md5Hash')
    if md5:
      return f'md5:{base64.b64decode(md5).hex()}'
  kind = 'md5' if like.startswith('md5:') else 'sha256'
  with place.open('rb') as f:
    out = hashlib.new(kind)
    while chunk := f.read(_CHUNK):
      out.update(chunk)
  return f'md5:{out.hexdigest()}' if kind == 'md5' else out.hexdigest()


def remove(place: Path) -> None:
  """Removes a file or a whole folder, if it is there."""
  if in_bucket(place):
    with contextlib.suppress(FileNotFoundError):
      _bucket().rm(str(place), recursive=True)
  elif place.is_dir():
    shutil.rmtree(place)
  else:
    place.unlink(missing_ok=True)


def truncate(place: Path, size: int) -> None:
  """Cuts a file; in a bucket, where nothing is cut, it is written anew."""
  if in_bucket(place):
    if size_of(place) != size:
      write(place, read(place, 0, size))
    return
  with naming(place):
    os.truncate(place, size)


def rename(place: Path, to: Path) -> None:
  """Renames a file or folder; in a bucket by copying, so not at once."""
  if in_bucket(place):
    _bucket().copy(str(place), str(to), recursive=place.is_dir())
    remove(place)
  else:
    place.rename(to)


def set_aside(place: Path, why: str) -> Path:
  """Renames what cannot be used, which may be somebody's; says so."""
  there = free(place, '{}.damaged.{}')
  rename(place, there)
  logging.warning('%s %s; it is now %s', place, why, there.name)
  return there


def copy_aside(place: Path, why: str) -> Path:
  """Copies a file that is about to be repaired; says so."""
  there = free(place, '{}.damaged.{}')
  write(there, read(place))
  logging.warning('%s %s; as it was it is now %s', place, why, there.name)
  return there


def free(place: Path, form: str) -> Path:
  """Finds the first unused path beside another, of its name and a number."""
  names = (place.with_name(form.format(place.name, i)) for i in range(1, 10**6))
  return next(p for p in names if not (p.exists() or os.path.islink(p)))


class Appender:
  """Appends to a file, of which the first `size` bytes are kept.

  On disk, bytes are with the operating system when `write` returns, so that
  SIGKILL tears at most the last line. A bucket cannot append: what is new goes
  there as an object of its own, which the server joins to the file, every
  UPLOAD seconds and at each `flush`. A kill then loses what came since; a run
  that flushes before each checkpoint makes all of that again.
  """

  def __init__(self, place: Path, size: int = 0):
    self._path, self.size = place, size
    self._held, self._sent = b'', time.monotonic()
    if not in_bucket(place):
      with naming(place):
        self._file = place.open('ab')
        if self._file.tell() != size:
          self._file.truncate(size)
    elif not place.exists():
      write(place, b'')
    else:
      truncate(place, size)

  def write(self, data: bytes) -> None:
    self.size += len(data)
    if in_bucket(self._path):
      self._held += data
      if time.monotonic() - self._sent > UPLOAD:
        self._upload()
      return
    with naming(self._path):
      self._file.write(data)
      self._file.flush()

  def flush(self) -> None:
    """Returns when all of it is on disk, or in the bucket."""
    if in_bucket(self._path):
      self._upload()
      return
    with naming(self._path):
      os.fsync(self._file.fileno())

  def close(self) -> None:
    self.flush()
    if not in_bucket(self._path):
      self._file.close()

  def _upload(self) -> None:
    self._sent = time.monotonic()
    if not self._held:
      return
    whole, part = str(self._path), f'{self._path}.part'
    before = self.size - len(self._held)
    _bucket().pipe_file(part, self._held)
    _bucket().merge(whole, [whole, part])
    if size_of(self._path) != self.size:  # a request that was repeated
      write(self._path, read(self._path, 0, before) + self._held)
    _bucket().rm_file(part)
    self._held = b''


@contextlib.contextmanager
def naming(place: str | os.PathLike) -> Iterator[None]:
  """Names the file in the system's errors, which `write` leaves out."""
  try:
    yield
  except OSError as error:
    if error.errno is not None and error.filename is None:
      error.filename = os.fspath(place)
    raise


@functools.cache
def _bucket() -> Any:
  """Returns the file system of buckets, the one etils and so orbax uses."""
  try:
    import fsspec
    import gcsfs  # noqa: F401  (fsspec would say so in several lines)
  except ImportError as error:
    raise ValueError(
      f'{SCHEME} needs packages that are missing ({error});'
      f' {install.command("gcs")}, or use a local path'
    ) from error
  # Other processes write there too: no listing is remembered.
  for protocol in ('gs', 'gcs'):
    fsspec.config.conf.setdefault(protocol, {})['use_listings_cache'] = False
  return fsspec.filesystem('gcs', finalize_on_close=True)


@functools.cache
def _reach(bucket: str) -> None:
  """Raises ValueError if the bucket cannot be listed."""
  try:
    _bucket().ls(bucket)
  except ValueError:
    raise
  except Exception as error:  # of HTTP, of credentials, of the network
    raise ValueError(
      f'{SCHEME}{bucket} cannot be read ({type(error).__name__}: {error});'
      ' name a bucket that your credentials reach (gcloud auth'
      ' application-default login)'
    ) from error
