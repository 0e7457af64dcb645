"""Arrays of a tree in a file, and files that are not what was written."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.runtime import packed, publish


def tree(width=3):
  return {
    'w': jnp.arange(2.0 * width).reshape(2, width),
    'half': jnp.ones((4,), jnp.bfloat16) / 3,
    'none': jnp.zeros((0, 5)),
    'step': jnp.int32(7),
    'key': jax.random.key(3),
  }


def shapes(width=3):
  return jax.eval_shape(lambda: tree(width))


def assert_same(one, other):
  assert jax.tree.structure(one) == jax.tree.structure(other)
  for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
    assert x.dtype == y.dtype
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_arrays_come_back_bit_for_bit():
  assert_same(packed.unpack(packed.pack(tree()), shapes()), tree())


@pytest.mark.parametrize(
  'like',
  [
    shapes(4),
    {k: x for k, x in shapes().items() if k != 'half'},
    shapes() | {'more': jax.ShapeDtypeStruct((1,), jnp.float32)},
    shapes() | {'half': jax.ShapeDtypeStruct((4,), jnp.float16)},
    shapes() | {'key': jax.ShapeDtypeStruct((3,), jnp.uint32)},
  ],
)
def test_arrays_of_another_tree_are_refused(like):
  with pytest.raises(ValueError):
    packed.unpack(packed.pack(tree()), like)


def damaged(place, rng):
  """Damages a version in one of six ways, at a random place."""
  name = str(rng.choice([publish.ARRAYS, publish.MANIFEST]))
  file = place / name
  data = bytearray(file.read_bytes())
  how = str(
    rng.choice(['torn', 'cut', 'flipped', 'missing', 'marker', 'misshapen'])
  )
  if how == 'torn':  # as of a writer that was killed
    place.rename(place.with_suffix('.tmp'))
  elif how == 'cut':
    file.write_bytes(data[: rng.integers(len(data))])
  elif how == 'flipped':
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)
  elif how == 'missing':
    file.unlink()
  elif how == 'marker':
    (place / publish.COMPLETE).unlink()
  else:
    publish.publish_arrays(place.parent, 5, tree(int(rng.integers(4, 9))))


def test_every_damaged_version_is_noticed(tmp_path):
  """100 of 100, and the version before it is read as it was."""
  rng = np.random.default_rng(0)
  for i in range(100):
    folder = tmp_path / str(i)
    publish.publish_arrays(folder, 4, tree())
    publish.publish_arrays(folder, 5, tree())
    damaged(folder / publish.name_of(5), rng)
    with pytest.raises(ValueError):
      publish.fetch_arrays(folder, 5, shapes())
    assert_same(publish.fetch_arrays(folder, 4, shapes()), tree())
    shutil.rmtree(folder)
