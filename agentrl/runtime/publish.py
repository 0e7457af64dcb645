"""Versions of weights in a folder, for processes that generate with them.

  <folder>/v000123.tmp       while it is written
  <folder>/v000123/...       files of the version, as its writer made them
  <folder>/v000123/manifest.json   {file: {size, sha256}}, the version
  <folder>/v000123/COMPLETE  written last

Who reads looks for COMPLETE and compares the files with the manifest, so that a
version that was cut short, or damaged on its way, is refused and not used.
"""

import hashlib
import json
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

from agentrl.runtime import packed, text_files
from agentrl.types import PyTree

MANIFEST, COMPLETE = 'manifest.json', 'COMPLETE'
_NAME = re.compile('v([0-9]{6,9})')
KEPT = 2  # versions that stay: the newest, and one that may be being read
ARRAYS = 'arrays.msgpack'


def name_of(version: int) -> str:
  return f'v{version:06d}'


def newest(folder: str | pathlib.Path) -> int:
  """Returns the highest version that a folder holds; 0 without any."""
  return max(_versions(pathlib.Path(folder)), default=0)


def _versions(folder: pathlib.Path) -> dict[int, pathlib.Path]:
  """Maps numbers to the folder of each version, written whole or not."""
  matches = ((_NAME.fullmatch(x.name), x) for x in folder.glob('v*'))
  return {int(m[1]): x for m, x in matches if m and x.is_dir()}


def publish(
  folder: str | pathlib.Path,
  version: int,
  write: Callable[[pathlib.Path], None],
  *,
  kept: int = KEPT,
) -> pathlib.Path:
  """Writes a version, whole or not at all: -> its folder.

  A version that is there, such as one from before a resume, is replaced.

  Args:
    write: puts the files into a folder, which is there and empty
    kept: versions that stay: this one, and the newest others
  """
  folder = pathlib.Path(folder)
  final = folder / name_of(version)
  beside = folder / f'{final.name}.tmp'
  for old in (beside, final):
    shutil.rmtree(old, ignore_errors=True)
  beside.mkdir(parents=True)
  write(beside)
  files = {
    str(x.relative_to(beside)): _entry(x)
    for x in sorted(beside.rglob('*'))
    if x.is_file()
  }
  text = json.dumps({'version': version, 'files': files}, indent=1)
  (beside / MANIFEST).write_text(text, encoding='utf-8')
  beside.rename(final)
  (final / COMPLETE).touch()
  others = _versions(folder)
  others.pop(version)
  for number in sorted(others)[: max(0, len(others) + 1 - kept)]:
    shutil.rmtree(others[number], ignore_errors=True)
  for torn in folder.glob('v*.tmp'):
    if _NAME.fullmatch(torn.stem):
      shutil.rmtree(torn, ignore_errors=True)
  return final


def publish_arrays(
  folder: str | pathlib.Path, version: int, tree: PyTree, *, kept: int = KEPT
) -> pathlib.Path:
  """Writes a version of arrays; as `publish`."""
  data = packed.pack(tree)
  return publish(folder, version, lambda x: _write(x / ARRAYS, data), kept=kept)


def _write(file: pathlib.Path, data: bytes) -> None:
  file.write_bytes(data)


def fetch_arrays(
  folder: str | pathlib.Path, version: int, like: PyTree
) -> PyTree:
  """Reads a version of arrays: host arrays.

  Args:
    like: a tree of arrays, or of their shapes and dtypes
  Raises:
    ValueError: it was cut short, is damaged, or is of another tree.
  """
  place = pathlib.Path(folder) / name_of(version)
  check(place)
  try:
    return packed.unpack((place / ARRAYS).read_bytes(), like)
  except (OSError, ValueError) as error:
    raise ValueError(f'{place / ARRAYS}: {error}') from error


def check(version_folder: str | pathlib.Path) -> int:
  """Returns the version of a folder whose files are whole, and no others.

  Raises:
    ValueError: it is none, was cut short, or a file is not as it was written.
  """
  folder = pathlib.Path(version_folder)
  if not (folder / COMPLETE).is_file():
    raise ValueError(
      f'{folder} holds no complete version of weights; it is still being'
      ' written, or its writer was stopped'
    )
  version, files = _manifest(folder)
  there = {
    str(x.relative_to(folder)): x
    for x in sorted(folder.rglob('*'))
    if x.is_symlink() or not x.is_dir()
  }
  for name in sorted(there.keys() - files.keys() - {MANIFEST, COMPLETE}):
    raise ValueError(
      f'{folder / name} is not named by its {MANIFEST}; publish that version'
      ' again'
    )
  for name, entry in files.items():
    place = there.get(name)
    if place and (place.is_symlink() or not place.is_file()):
      place = None
    if place is None or _entry(place) != entry:
      raise ValueError(
        f'{folder / name} is not as it was written; publish that version again'
      )
  return version


def _manifest(folder: pathlib.Path) -> tuple[int, dict[str, Any]]:
  """Returns the version and the files of a manifest. Raises ValueError."""
  match text_files.read_json(folder / MANIFEST):
    case {'version': int(version), 'files': {**files}} if (
      files
      and type(version) is int  # and not True
      and name_of(version) == folder.name
    ):
      return version, {str(name): entry for name, entry in files.items()}
  raise ValueError(
    f'{folder / MANIFEST} must give the version of its folder and a file or'
    ' more; publish that version again'
  )


def _entry(file: pathlib.Path) -> dict:
  digest = hashlib.sha256()
  with file.open('rb') as stream:
    while part := stream.read(1 << 20):
      digest.update(part)
  return {'size': file.stat().st_size, 'sha256': digest.hexdigest()}
