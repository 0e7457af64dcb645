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
import shutil
from collections.abc import Callable

MANIFEST, COMPLETE = 'manifest.json', 'COMPLETE'
KEPT = 2  # versions that stay: the newest, and one that may be being read


def name_of(version: int) -> str:
  return f'v{version:06d}'


def newest(folder: str | pathlib.Path) -> int:
  """The highest version that a folder holds; 0 without any."""
  names = (x.name.removeprefix('v') for x in pathlib.Path(folder).glob('v*'))
  return max((int(x) for x in names if x.isdigit()), default=0)


def publish(
  folder: str | pathlib.Path,
  version: int,
  write: Callable[[pathlib.Path], None],
) -> pathlib.Path:
  """Writes a version, whole or not at all: -> its folder.

  A version that is there, such as one from before a resume, is replaced.

  Args:
    write: puts the files into a folder, which is there and empty
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
  for old in sorted(folder.glob('v[0-9]*'))[:-KEPT]:
    shutil.rmtree(old, ignore_errors=True)
  return final


def check(version_folder: str | pathlib.Path) -> int:
  """The version of a folder whose files are whole.

  Raises:
    ValueError: it is none, was cut short, or a file is not as it was written.
  """
  folder = pathlib.Path(version_folder)
  if not (folder / COMPLETE).exists():
    raise ValueError(
      f'{folder} holds no complete version of weights; it is still being'
      ' written, or its writer was stopped'
    )
  manifest = json.loads((folder / MANIFEST).read_text(encoding='utf-8'))
  for name, entry in manifest['files'].items():
    if not (folder / name).exists() or _entry(folder / name) != entry:
      raise ValueError(
        f'{folder / name} is not as it was written; publish that version again'
      )
  return int(manifest['version'])


def _entry(file: pathlib.Path) -> dict:
  digest = hashlib.sha256()
  with file.open('rb') as stream:
    while part := stream.read(1 << 20):
      digest.update(part)
  return {'size': file.stat().st_size, 'sha256': digest.hexdigest()}
