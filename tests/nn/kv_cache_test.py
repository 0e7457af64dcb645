"""What slots have read, against plain arrays of all positions."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import kv_cache
from tests.nn import decoders

SLOTS, CAPACITY, GROUPS, SIZE = 4, 14, 2, 3
HEADS = 2 * GROUPS


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
  """Positions 0 to 3, 4 to 7 and 8 to 13."""
  monkeypatch.setattr(kv_cache, 'FIRST', 4)


def plain(layer, name: str) -> np.ndarray:
  """Keys or values of all positions: [N, S, G, d]."""
  parts = [np.asarray(getattr(b, name), np.float64) for b in layer]
  order = (0, 3, 1, 2) if name == 'k' else (0, 2, 1, 3)
  axis = 3 if name == 'k' else 2
  return np.transpose(np.concatenate(parts, axis=axis), order)


def drawn(rng, count: int) -> np.ndarray:
  return rng.normal(size=(SLOTS, count, GROUPS, SIZE)).astype(np.float32)


def full(rng):
  """A cache with something at every position."""
  layer = kv_cache.empty(SLOTS, CAPACITY, GROUPS, SIZE, jnp.float32)
  assert [b.low for b in layer] == [0, 4, 8]
  return kv_cache.write(layer, drawn(rng, CAPACITY), drawn(rng, CAPACITY), None)


@pytest.mark.parametrize('count', [1, 3, 6])
def test_what_is_written_stands_there_and_nothing_else_moves(count):
  """Also across blocks; what is beyond the last position is dropped."""
  rng = np.random.default_rng(count)
  layer, write = full(rng), jax.jit(kv_cache.write)
  for start in ([0, 3, 5, 13], [4, 7, 8, 14], [2, 1, 12, 6]):
    k, v = drawn(rng, count), drawn(rng, count)
    after = write(layer, k, v, jnp.array(start, jnp.int32))
    for name, new in (('k', k), ('v', v)):
      want = plain(layer, name)
      for i, s in enumerate(start):
        fits = max(min(count, CAPACITY - s), 0)
        want[i, s : s + fits] = new[i, :fits]
      np.testing.assert_array_equal(plain(after, name), want)
    layer = after


def test_lanes_of_a_vmap_write_and_read_as_each_alone():
  """Also where one lane hits blocks that the other does not."""
  rng = np.random.default_rng(5)
  lanes = [full(rng), full(rng)]
  k, v = (np.stack([drawn(rng, 3), drawn(rng, 3)]) for _ in range(2))
  q = rng.normal(size=(2, SLOTS, 3, HEADS, SIZE)).astype(np.float32)
  start = jnp.array([[0, 1, 0, 1], [2, 8, 11, 9]], jnp.int32)

  @jax.jit
  def one(layer, k, v, q, start):
    layer = kv_cache.write(layer, k, v, start)
    return layer, kv_cache.attend(layer, q, start)

  both = jax.tree.map(lambda *x: jnp.stack(x), *lanes)
  got = jax.jit(jax.vmap(one))(both, k, v, q, start)
  for i, layer in enumerate(lanes):
    want = one(layer, k[i], v[i], q[i], start[i])
    chex.assert_trees_all_close(
      jax.tree.map(lambda x, i=i: x[i], got), want, atol=1e-6
    )


def test_what_was_read_by_itself_stands_in_front():
  rng = np.random.default_rng(6)
  layer, count = full(rng), 6
  k, v = drawn(rng, count), drawn(rng, count)
  small = kv_cache.empty(SLOTS, count, GROUPS, SIZE, jnp.float32)
  small = kv_cache.write(small, k, v, None)
  want = kv_cache.write(layer, k, v, jnp.zeros(SLOTS, jnp.int32))
  chex.assert_trees_all_equal(kv_cache.begin(layer, small), want)


@pytest.mark.parametrize('window', [0, 3])
def test_every_position_sees_itself_and_those_before(window):
  """Wherever the furthest slot is: at the first of a block, or the last."""
  rng = np.random.default_rng(0)
  layer = full(rng)
  k, v = plain(layer, 'k'), plain(layer, 'v')
  attend = jax.jit(functools.partial(kv_cache.attend, window=window))
  for furthest in range(CAPACITY):
    start = np.array([furthest, furthest // 2, 0, max(furthest - 1, 0)])
    q = rng.normal(size=(SLOTS, 1, HEADS, SIZE)).astype(np.float32)
    got = attend(layer, q, jnp.asarray(start, jnp.int32))
    for i, p in enumerate(start):
      seen = slice(max(0, p - window + 1) if window else 0, p + 1)
      for h in range(HEADS):
        g = h // (HEADS // GROUPS)
        e = np.exp(k[i, seen, g] @ q[i, 0, h] / np.sqrt(SIZE))
        want = e @ v[i, seen, g] / e.sum()
        np.testing.assert_allclose(got[i, 0, h], want, atol=1e-5)


@pytest.mark.parametrize(
  ('lengths', 'window'),
  [
    ((9, 4), 0),
    ((0, 3), 3),
    *(
      pytest.param(lengths, window, marks=pytest.mark.nightly)
      for lengths, window in (((9, 4), 3), ((1, 14), 0), ((1, 14), 3))
    ),
    pytest.param((0, 3), 0, marks=pytest.mark.nightly),
  ],
)
def test_a_prefix_held_once_is_one_held_by_each_slot(
  window, lengths, monkeypatch
):
  """In float64 to the last digits: softmax in parts is the softmax."""
  rng, w = np.random.default_rng(0), 2
  with decoders.float64(monkeypatch):
    prefix, own = (
      jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), full(rng))
      for _ in range(2)
    )
    prefix = jax.tree.map(lambda x: x[: SLOTS // w], prefix)
    held = kv_cache.PrefixLayer(prefix, jnp.array(lengths, jnp.int32))
    base = np.repeat(lengths, w)
    how = dict(window=window, size=5, cap=0.7)
    write = jax.jit(kv_cache.write)
    attend = jax.jit(functools.partial(kv_cache.attend, **how))
    for start in ([0, 3, 7, 11], [12, 0, 1, 5], [0, 0, 0, 0]):
      q = rng.normal(size=(SLOTS, 2, HEADS, SIZE))
      whole = kv_cache.empty(SLOTS, 2 * CAPACITY, GROUPS, SIZE, jnp.float64)
      for layer, at in ((of_slots(prefix, w), 0 * base), (own, base)):
        k, v = plain(layer, 'k'), plain(layer, 'v')
        whole = write(whole, k, v, jnp.asarray(at, jnp.int32))
      start = np.array(start, np.int32)
      got = attend(own, q, start, prefix=held)
      want = attend(whole, q, start + base)
      np.testing.assert_allclose(got, want, atol=1e-12, rtol=0)


def of_slots(layer, w: int):
  return jax.tree.map(lambda x: jnp.repeat(x, w, axis=0), layer)
