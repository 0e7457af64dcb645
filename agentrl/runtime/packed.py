"""Arrays of a tree as one file, for other processes to read.

What is read must be what the reader wants: the same leaves by path, each of its
shape and dtype. Files travel in publish.py's folders, which say whether they
are whole.
"""

from typing import Any

import jax
import numpy as np
from flax import serialization

from agentrl.types import PyTree


def pack(tree: PyTree) -> bytes:
  """Packs arrays, of devices or of the host; keys as their data."""
  arrays = {path: np.asarray(_plain(x)) for path, x in _named(tree).items()}
  return serialization.msgpack_serialize(arrays)


def unpack(data: bytes, like: PyTree) -> PyTree:
  """Unpacks arrays of the host; keys are keys again.

  Args:
    like: a tree of arrays, or of their shapes and dtypes
  Raises:
    ValueError: the data are damaged, or of another tree.
  """
  try:
    arrays = serialization.msgpack_restore(data)
    found = {path: (x.shape, str(x.dtype)) for path, x in arrays.items()}
  except Exception as error:  # msgpack raises what it likes
    raise ValueError(f'the arrays cannot be read: {error}') from error
  wanted = _named(like)
  plain = {path: jax.eval_shape(_plain, x) for path, x in wanted.items()}
  for path in plain | found:
    there = found.get(path, 'missing')
    here = plain.get(path, 'missing')
    if not isinstance(here, str):
      here = here.shape, str(here.dtype)
    if there != here:
      raise ValueError(f'array {path!r} must be {here}, got {there}')
  leaves = [
    jax.random.wrap_key_data(arrays[path]) if _is_key(x) else arrays[path]
    for path, x in wanted.items()
  ]
  return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named(tree: PyTree) -> dict[str, Any]:
  """Returns the leaves by path, in tree order."""
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf
    for path, leaf in jax.tree.leaves_with_path(tree)
  }


def _is_key(x: Any) -> bool:
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _plain(x: Any) -> Any:
  return jax.random.key_data(x) if _is_key(x) else x
