"""Leaves of a state by path: their descriptions, and how they are stored.

Keys are stored as their data, and empty arrays not at all: orbax has neither.
"""

from typing import Any, NamedTuple

import jax


class Leaf(NamedTuple):
  """Description of one array; `impl` is '' unless it is a key."""

  path: str
  shape: tuple[int, ...]
  dtype: str
  impl: str

  def __str__(self) -> str:
    return f'{self.dtype}{list(self.shape)}'


def named(tree: Any) -> dict[str, Any]:
  """Returns the leaves of a tree by path ('params/dense/w'), in tree order."""
  out = {}
  for path, leaf in jax.tree.leaves_with_path(tree):
    name = jax.tree_util.keystr(path, simple=True, separator='/')
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
      raise ValueError(
        f'state leaf {name!r} is a {type(leaf).__name__}, not a jax array; '
        'move it into meta or make it one with jnp.asarray'
      )
    if leaf.sharding is None:
      raise ValueError(
        f'state leaf {name!r} has no sharding; give its ShapeDtypeStruct one'
      )
    if name in out:
      raise ValueError(f'two state leaves are called {name!r}; rename one')
    out[name] = leaf
  return out


def _is_key(x: jax.Array | jax.ShapeDtypeStruct) -> bool:
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def describe(path: str, x: jax.Array) -> Leaf:
  """Describes a leaf: written beside it, and compared before it is read."""
  impl = str(jax.random.key_impl(x)) if _is_key(x) else ''
  return Leaf(path, x.shape, str(x.dtype), impl)


def storable(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
  """Replaces keys by their uint32 data, and drops empty arrays."""
  return {
    path: jax.random.key_data(x) if _is_key(x) else x
    for path, x in arrays.items()
    if x.size
  }


def stored_as(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
  """Returns the abstract form of what `storable` wrote for a leaf like `x`."""
  plain = jax.ShapeDtypeStruct(x.shape, x.dtype)
  stored = jax.eval_shape(jax.random.key_data, plain) if _is_key(x) else plain
  return jax.ShapeDtypeStruct(stored.shape, stored.dtype, sharding=x.sharding)


def fill(
  stored: jax.Array | None, x: jax.ShapeDtypeStruct, impl: str
) -> jax.Array:
  """Fills a leaf like `x` from storage: a key by `impl`, or an empty array."""
  if impl:
    if stored is None:
      stored = jax.numpy.zeros(stored_as(x).shape, 'uint32')
    stored = jax.random.wrap_key_data(stored, impl=impl)
  elif stored is None:
    stored = jax.numpy.zeros(x.shape, x.dtype)
  return jax.device_put(stored, x.sharding)


def difference(saved: list[Leaf], wanted: dict[str, Any]) -> str | None:
  """Returns the first leaf that is not the same on both sides, in words."""
  there = {leaf.path: str(leaf) for leaf in saved}
  here = {path: f'{x.dtype}{list(x.shape)}' for path, x in wanted.items()}
  for path in here | there:
    old, new = (side.get(path, 'missing') for side in (there, here))
    if old != new:
      return f'leaf {path!r} is {old} there and {new} here'
  return None
