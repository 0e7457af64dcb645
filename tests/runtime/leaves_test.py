"""Leaves of a state: their names, what is stored of them, what differs."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.runtime import leaves
from tests import errors


def state() -> dict:
  return {
    'params': {'w': jnp.arange(6.0).reshape(2, 3)},
    'none': jnp.zeros((0, 4), jnp.int32),
    'key': jax.random.key(3),
    'no keys': jax.random.split(jax.random.key(0), 2)[:0],
  }


def test_leaves_are_named_by_path_in_tree_order():
  tree = state()
  assert [*leaves.named(tree)] == ['key', 'no keys', 'none', 'params/w']
  assert [*map(id, leaves.named(tree).values())] == [
    *map(id, jax.tree.leaves(tree))
  ]
  with errors.raises(ValueError, 'a/b'):
    leaves.named({'a': {'b': jnp.ones(1)}, 'a/b': jnp.ones(1)})


def test_what_is_stored_comes_back_to_the_bit():
  arrays = leaves.named(state())
  stored = leaves.storable(arrays)
  assert [*stored] == ['key', 'params/w']
  for path, x in arrays.items():
    like = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    impl = leaves.describe(path, x).impl
    assert bool(impl) == ('key' in path)
    if path in stored:
      there = leaves.stored_as(like)
      assert (there.shape, there.dtype) == (
        stored[path].shape,
        stored[path].dtype,
      )
    back = leaves.fill(stored.get(path), like, impl)
    assert (back.shape, back.dtype) == (x.shape, x.dtype)
    if impl:
      back, x = jax.random.key_data(back), jax.random.key_data(x)
    np.testing.assert_array_equal(back, x)
