"""Reads and writes the weights of a published version.

A model that began from a checkpoint becomes a directory of `transformers`, one
of our own a file of arrays by parameter name.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from agentrl import mesh
from agentrl.model import hf_config, hf_weights
from agentrl.nn import lora, transformer
from agentrl.runtime import storage, text_files
from agentrl.types import PyTree

ARRAYS = 'arrays.safetensors'


def write(
  folder: pathlib.Path,
  shape: transformer.DecoderConfig,
  params: PyTree,
  config: hf_config.Config | None = None,
) -> None:
  """Writes the decoder in float32, adapters merged into it.

  Args:
    params: of a policy; everything but the decoder is left out
    config: of the checkpoint that it began from; None: our own model
  """
  params = lora.merge(params)
  if config is not None:
    hf_weights.write(folder, config, params, dtype='float32')
    return
  specs = transformer.specs(shape)
  tree = jax.device_get({name: params[name] for name in specs})
  arrays = {
    jax.tree_util.keystr(path): np.ascontiguousarray(x, np.float32)
    for path, x in jax.tree_util.tree_leaves_with_path(tree)
  }
  with storage.shared(folder / ARRAYS):
    safetensors.numpy.save_file(arrays, folder / ARRAYS)


def read(folder: pathlib.Path, shape: transformer.DecoderConfig) -> PyTree:
  """Reads the decoder from a folder that `write` filled.

  Raises:
    ValueError: it belongs to another model, or is damaged.
  """
  if not (folder / ARRAYS).exists():
    return hf_weights.read(folder, shape)
  arrays = _load(folder / ARRAYS)
  specs = transformer.specs(shape)
  named = jax.tree_util.tree_leaves_with_path(specs, is_leaf=mesh.is_param)
  want = {jax.tree_util.keystr(path): x.shape for path, x in named}
  have = {name: x.shape for name, x in arrays.items()}
  if want != have:
    different = next(
      x for x in sorted({*want, *have}) if want.get(x) != have.get(x)
    )
    raise ValueError(
      f'{folder}: {different} must have the shape {want.get(different)} of the'
      f' served model, got {have.get(different)}; they belong to different'
      ' models'
    )
  tree = jax.tree.structure(specs, is_leaf=mesh.is_param)
  return jax.tree.unflatten(tree, [jnp.asarray(arrays[x]) for x in want])


def _load(file: pathlib.Path) -> dict[str, np.ndarray]:
  """Loads arrays that `write` wrote; ValueError for others."""
  text_files.regular(file)
  try:
    arrays = safetensors.numpy.load_file(file)
  except (safetensors.SafetensorError, OSError, KeyError) as error:
    raise ValueError(
      f'{file} must be a safetensors file of float32 ({error!r}); publish that'
      ' version again'
    ) from error
  for name, x in arrays.items():
    if x.dtype != np.float32 or not np.all(np.isfinite(x)):
      raise ValueError(
        f'{file}: {name} must be finite numbers of float32; publish that'
        ' version again'
      )
  return arrays


def adapter_of(params: PyTree) -> PyTree:
  """Returns the adapter of a policy: {name: {'a': ..., 'b': ...}}."""
  return {
    name: {'a': x.a, 'b': x.b}
    for name, x in params['layers'].items()
    if lora.is_adapted(x)
  }
