"""Reads and writes weights in directories of `transformers`.

Tensors go from safetensors files straight into their shards: besides its
devices' memory a host holds one shard of one parameter at a time. Parameters
are float32, so bfloat16 and float16 files round-trip bit for bit.
"""

import json
import math
import os
import pathlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from agentrl import mesh
from agentrl.model import hf_config, hf_names
from agentrl.model.gguf import folder as gguf_folder
from agentrl.nn import transformer
from agentrl.runtime import storage, text_files

# As transformers looks for them: the one file, then the index of several.
WHOLE, INDEX = 'model.safetensors', 'model.safetensors.index.json'
TEXTS = ['*.json', '*.txt', '*.model', '*.jinja']  # settings and tokenizer
FILES = ['*.safetensors', *TEXTS]
AUTHORS = 'consolidated*'  # weights once more, in a layout of their authors
EMBED, HEAD = 'model.embed_tokens.weight', 'lm_head.weight'
FLOATS = {'F64': 8, 'F32': 4, 'F16': 2, 'BF16': 2}


def locate(
  path: str, *, weights: bool = True, field: str = 'model.path'
) -> pathlib.Path:
  """Returns the directory of a local path or a hub name, fetching if needed.

  That of a GGUF file has its settings and tokenizer (model/gguf/folder.py).
  'smollm2' is the file of an installed package.

  Args:
    weights: False fetches only settings and tokenizer
    field: of the config, for errors
  Raises: ValueError if it is neither.
  """
  if os.path.isdir(path):
    return pathlib.Path(path)
  if path == gguf_folder.SMOLLM2:
    path = str(gguf_folder.smollm2())
  if path.endswith('.gguf'):
    return gguf_folder.folder(pathlib.Path(path))
  import huggingface_hub as hub  # slow to import

  def fetch(local: bool) -> pathlib.Path:
    folder = hub.snapshot_download(
      path,
      allow_patterns=FILES if weights else TEXTS,
      ignore_patterns=[AUTHORS],
      local_files_only=local,
    )
    return pathlib.Path(folder)

  try:
    try:
      folder = fetch(local=True)  # which may have been fetched without weights
      if not weights or any(folder.glob('*.safetensors')):
        return folder
    except hub.errors.LocalEntryNotFoundError:
      pass
    return fetch(local=False)
  except Exception as e:  # of many kinds: name, network, access
    words = ' '.join(str(e).split())[:200]
    raise ValueError(
      f'{field} must be a directory or the name of a model on the hub, got'
      f' {path!r} ({words})'
    ) from e


def read(directory: str | pathlib.Path, shape: transformer.DecoderConfig):
  """Reads a decoder's parameters, each shard on the host that holds it.

  Uses the current mesh, or one device without a mesh.

  Args:
    shape: of the directory's config.json (hf_config.shape)
  Raises: ValueError for files that are missing or torn, tensors that are
    missing, unknown or of another shape, and a mesh that does not divide them;
    all before anything is read.
  """
  specs = transformer.specs(shape)
  mesh.shardings(specs)  # raises where the mesh does not divide
  tensors = check(directory, shape)
  tree = jax.tree.structure(specs, is_leaf=mesh.is_param)
  entries = hf_names.entries(shape)
  return jax.tree.unflatten(
    tree, [_place(directory, e, tensors) for e in entries]
  )


def check(
  directory: str | pathlib.Path, shape: transformer.DecoderConfig
) -> dict[str, Any]:
  """Opens the tensors; ValueError unless they match the decoder."""
  entries = hf_names.entries(shape)
  tensors = _open(pathlib.Path(directory), tied=shape.tied)
  _check(directory, entries, tensors, tied=shape.tied)
  return tensors


def _open(directory: pathlib.Path, *, tied: bool) -> dict[str, Any]:
  """Maps the name of each tensor to a lazy slice; reads no data."""
  if gguf_folder.is_folder(directory):
    return {**gguf_folder.open_tensors(directory)}
  out = {}
  for file in _weight_files(directory):
    tensors = _open_file(directory / file)
    if twice := sorted(out.keys() & tensors.keys()):
      raise ValueError(
        f'{directory / file} holds the tensor {twice[0]}, as does another file'
        ' of its folder; download them again'
      )
    out |= tensors
  if tied and EMBED not in out and HEAD in out:
    out[EMBED] = out.pop(HEAD)  # one of the two is enough
  return out


def _weight_files(directory: pathlib.Path) -> list[str]:
  """Lists the files that transformers reads, or parts without an index.

  Raises: ValueError if there are none.
  """
  index = directory / INDEX
  if (directory / WHOLE).exists():
    return [WHOLE]
  if index.exists():
    try:
      table = text_files.read_json(index)['weight_map']
      files = sorted(set(table.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
      raise ValueError(
        f'{index} must be an index ({e!r}); download it again'
      ) from e
    for name in map(str, files):
      if not re.fullmatch(r'[^/\\\0]+\.safetensors', name):
        raise ValueError(
          f'{index}: weight_map must name .safetensors files of its folder, got'
          f' {name!r:.60}; download it again'
        )
    return files
  files = sorted(file.name for file in directory.glob('*.safetensors'))
  parts = [name for name in files if name.startswith('model')]
  if not parts:
    there = f' of transformers, only {files}' if files else ''
    raise ValueError(
      f'model.path={str(directory)!r} must hold .safetensors files{there}; save'
      f' the model with transformers, as {WHOLE} or in parts'
    )
  return parts


def _open_file(file: pathlib.Path) -> dict[str, Any]:
  if not file.exists():
    raise ValueError(f'{file} is missing; download it again')
  text_files.regular(file)
  try:
    # Slices keep the file open for as long as they live.
    opened = safetensors.safe_open(str(file), 'numpy')
    slices = {
      name: opened.get_slice(name)
      for name in opened.keys()  # noqa: SIM118  it is no dict
    }
  except (safetensors.SafetensorError, OSError) as e:
    raise ValueError(
      f'{file} must be a whole safetensors file ({e}); download it again'
    ) from e
  out = {_alone(name): x for name, x in slices.items()}
  if len(out) < len(slices):
    raise ValueError(
      f'{file} holds a tensor twice, with and without language_model in its'
      ' name; remove one of the two'
    )
  return out


def _alone(name: str) -> str:
  """Returns a tensor's name in a checkpoint of the text model alone."""
  name = name.removeprefix('language_model.')
  return name.replace('model.language_model.', 'model.', 1)


def _check(directory, entries, tensors, *, tied: bool) -> None:
  """Raises ValueError unless the tensors are exactly the parameters."""
  wanted = {
    name: e.theirs.shape(e.tail) for e in entries for name, _ in e.pieces()
  }
  for name, shape in wanted.items():
    if name not in tensors:
      raise ValueError(
        f'{directory} lacks the tensor {name}; its files and its config.json'
        ' belong to different models'
      )
    size, kind = tuple(tensors[name].get_shape()), tensors[name].get_dtype()
    if size != shape:
      raise ValueError(
        f'{directory}: tensor {name} must have the shape {shape} of'
        f' config.json, got {size}; they belong to different models'
      )
    if kind not in FLOATS:
      raise ValueError(
        f'{directory}: tensor {name} must be one of {tuple(FLOATS)}, got'
        f' {kind}; use a checkpoint that is not quantized'
      )
  for name in tensors.keys() - wanted.keys():
    if not _idle(name, tied):
      raise ValueError(
        f'{directory}: tensor {name} is not part of the model of config.json;'
        ' they belong to different models'
      )
  if tied and HEAD in tensors and not _equal(tensors[HEAD], tensors[EMBED]):
    raise ValueError(
      f'{directory}: {HEAD} must equal {EMBED} with tie_word_embeddings in'
      ' config.json, although transformers uses it anyway; set'
      ' tie_word_embeddings to false, or remove that tensor'
    )


def _equal(a, b, rows: int = 4096) -> bool:
  """Compares two tensors of files, a few rows at a time."""
  if (shape := a.get_shape()) != b.get_shape():
    return False
  starts = range(0, shape[0], rows)
  spans = (slice(i, min(i + rows, shape[0])) for i in starts)
  return all(np.array_equal(np.float32(a[x]), np.float32(b[x])) for x in spans)


def _idle(name: str, tied: bool) -> bool:
  """Returns True for tensors not used here: images, tables, a tied head."""
  name = name.removeprefix('model.')
  images = name.startswith(('vision_tower.', 'multi_modal_projector.'))
  table = name.endswith('rotary_emb.inv_freq')
  return images or table or (tied and name == HEAD)


def _place(directory, entry: hf_names.Entry, tensors):
  """Reads a parameter shard by shard."""
  shape, sharding = entry.ours.shape, mesh.shardings(entry.ours)
  if sharding is None:
    whole = (slice(None),) * len(shape)
    return jnp.asarray(_read(directory, entry, tensors, whole))
  indices = sharding.addressable_devices_indices_map(shape)
  shards = [
    jax.device_put(_read(directory, entry, tensors, index), device)
    for device, index in indices.items()
  ]
  return jax.make_array_from_single_device_arrays(shape, sharding, shards)


def _read(directory, entry: hf_names.Entry, tensors, index) -> np.ndarray:
  """Reads the part of a parameter that the index names."""
  _, ours, theirs = entry
  spans = [range(*s.indices(n)) for s, n in zip(index, ours.shape, strict=True)]
  lead, tail = spans[: theirs.lead], spans[theirs.lead :]
  out = np.empty([len(span) for span in spans], ours.dtype)
  part = theirs.part(tail, entry.tail)
  for at in np.ndindex(*map(len, lead)):
    name = theirs.name.format(*(s[i] for s, i in zip(lead, at, strict=True)))
    with np.errstate(over='ignore'):
      out[at] = theirs.take(tensors[name][part], out.shape[theirs.lead :])
    if not np.all(np.isfinite(out[at])):
      raise ValueError(
        f'{directory}: tensor {name} must be finite in float32; download it'
        ' again'
      )
  return out


def write(
  directory: str | pathlib.Path,
  config: hf_config.Config,
  params,
  *,
  dtype: str | None = None,
  file_bytes: int = 5 << 30,
) -> None:
  """Writes config.json, index and safetensors that `transformers` loads.

  Args:
    config: of the checkpoint that training started from
    params: of the decoder; extra heads (values) are left out
    dtype: of the files; default: as config says, else float32
    file_bytes: of one file, at most, unless one tensor is larger
  Raises: ValueError if the directory holds weights already.
  """
  directory = pathlib.Path(directory)
  if any(directory.glob('*.safetensors')):
    raise ValueError(
      f'{directory} already holds weights; choose another directory'
    )
  shape = hf_config.shape(config)
  dtype = dtype or config.get('dtype') or config.get('torch_dtype') or 'float32'
  kind = np.dtype(jnp.dtype(dtype))
  directory.mkdir(parents=True, exist_ok=True)
  files = _files(shape, kind.itemsize, file_bytes)
  where, size = {}, 0
  for i, pieces in enumerate(files):
    file = f'model-{i + 1:05}-of-{len(files):05}.safetensors'
    file = file if len(files) > 1 else 'model.safetensors'
    out = {
      name: _write(params, entry, at, kind)
      for name, (entry, at) in pieces.items()
    }
    with storage.shared(directory / file):
      safetensors.numpy.save_file(out, directory / file, {'format': 'pt'})
    where |= dict.fromkeys(out, file)
    size += sum(x.nbytes for x in out.values())
  if len(files) > 1:
    index = {'metadata': {'total_size': size}, 'weight_map': where}
    _write_json(directory / INDEX, index)
  # The text model alone, in this dtype; torch_dtype is that field's old name.
  config = {x: y for x, y in config.items() if x != 'torch_dtype'}
  architecture = hf_config.FAMILIES[config['model_type']].architecture
  stored = {'dtype': dtype, 'architectures': [architecture]}
  _write_json(directory / 'config.json', config | stored)


def _write_json(file: pathlib.Path, tree) -> None:
  file.write_text(json.dumps(tree, indent=2) + '\n', encoding='utf-8')


def _files(shape, itemsize: int, file_bytes: int) -> list[dict[str, tuple]]:
  """Assigns tensors to files: name -> (entry, our leading index)."""
  files, room = [{}], file_bytes
  for entry in hf_names.entries(shape):
    size = math.prod(entry.tail) * itemsize
    for name, at in entry.pieces():
      if size > room and files[-1]:
        files.append({})
        room = file_bytes
      room -= size
      files[-1][name] = entry, at
  return files


def _write(params, entry: hf_names.Entry, at: tuple[int, ...], kind):
  """Builds one checkpoint tensor on the host."""
  for name in entry.path:
    params = params[name]
  piece = mesh.auto(lambda x: x[at] if at else x, None)
  x = np.asarray(piece(params))
  return np.ascontiguousarray(entry.theirs.give(x).astype(kind))
