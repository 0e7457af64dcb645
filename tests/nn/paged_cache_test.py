"""Pages hold what blocks hold, and tokamax's plain form reads them alike."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import decode, kv_cache, paged_cache
from tests import errors
from tests.nn import decoders


@pytest.fixture
def plain(monkeypatch):
  """Has pages read by tokamax's plain form, which runs anywhere."""
  pytest.importorskip('tokamax', reason='extra tokamax, Python 3.12')
  part = functools.partial(paged_cache.part, implementation='reference')
  monkeypatch.setattr(paged_cache, 'part', part)


def written(paged, *, n=3, g=2, d=6, capacity=200, seed=0):
  """A layer after a chunk of 130 from the beginning, and pieces behind it."""
  rng = np.random.default_rng(seed)
  layer = kv_cache.empty(n, capacity, g, d, 'float32', paged=paged)
  start = None
  for chunk in (130, 1, 40, 1):
    k, v = rng.normal(size=(2, n, chunk, g, d)).astype(np.float32)
    layer = kv_cache.write(layer, k, v, start)
    start = jnp.full(n, 130) if start is None else start + chunk
    start = start - jnp.arange(n)  # slots end in different places
  return layer


def joined(layer):
  blocks = kv_cache.blocks(layer)
  return (
    np.concatenate([b.k for b in blocks], axis=3),
    np.concatenate([b.v for b in blocks], axis=2),
  )


@pytest.mark.slow
def test_pages_hold_what_blocks_hold():
  pages, blocks = joined(written(True)), joined(written(False))
  for x, y, axis in zip(pages, blocks, (3, 2), strict=True):
    assert x.shape[axis] == 256  # whole pages
    x, more = np.split(x, [y.shape[axis]], axis)
    np.testing.assert_array_equal(x, y)
    assert not more.any()


def test_pages_begin_with_what_was_read_before():
  first, layer = written(True, capacity=128), written(True, capacity=300)
  made = kv_cache.begin(layer, first)
  np.testing.assert_array_equal(made.kv[:, :1], first.kv)
  np.testing.assert_array_equal(made.kv[:, 1:], layer.kv[:, 1:])


def test_what_falls_outside_is_dropped():
  layer = kv_cache.empty(2, 128, 1, 4, 'float32', paged=True)
  k = np.ones((2, 3, 1, 4), np.float32)
  made = kv_cache.write(layer, k, k, jnp.array([0, 127]))
  assert np.count_nonzero(
    np.any(made.kv, axis=(-1, -2)), axis=(1, 2)
  ).tolist() == [
    3,
    1,
  ]


@pytest.mark.parametrize('window', [0, 7, 150])
def test_a_chunk_reads_pages_as_blocks(window):
  q = np.random.default_rng(1).normal(size=(3, 5, 4, 6)).astype(np.float32)
  got, want = (
    kv_cache.attend(written(paged), q, jnp.array([100, 160, 3]), window)
    for paged in (True, False)
  )
  np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize(
  'how',
  [{}, {'window': 5}, {'window': 150}, {'cap': 2.0}, {'size': 64}],
  ids=str,
)
def test_tokamax_reads_pages_as_blocks_are_read(how, plain):
  q = np.random.default_rng(1).normal(size=(3, 1, 4, 6)).astype(np.float32)
  start = jnp.array([0, 171, 128])
  want = kv_cache.attend(written(False), q, start, **how)
  with jax.numpy_rank_promotion('allow'):
    got = kv_cache.attend(written(True), jnp.asarray(q), start, **how)
  np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize('window', [0, 20])
def test_what_slots_share_is_read_beside_their_pages(window, plain):
  q = np.random.default_rng(1).normal(size=(4, 1, 4, 6)).astype(np.float32)
  start = jnp.array([0, 171, 128, 5])

  def read(paged):
    shared = written(paged, n=2, capacity=140, seed=5)
    prefix = kv_cache.PrefixLayer(shared, jnp.array([11, 40]))
    layer = written(paged, n=4)
    return kv_cache.attend(layer, jnp.asarray(q), start, window, prefix=prefix)

  with jax.numpy_rank_promotion('allow'):
    np.testing.assert_allclose(read(True), read(False), atol=2e-6)


def test_a_decoder_says_over_pages_what_it_says_over_blocks(plain, monkeypatch):
  monkeypatch.setattr(paged_cache, 'chosen', lambda x: x == 'tokamax')
  shape, rng = decoders.SHAPES['tied'], np.random.default_rng(0)
  split = decode.prepare_decode_params(shape, decoders.random_parameters(shape))
  tokens = rng.integers(0, shape.vocab, (3, 9)).astype(np.int32)

  def read(attention):
    own = dataclasses.replace(shape, decode_attention=attention)
    extend = jax.jit(functools.partial(decode.forward_with_cache, own))
    start, out = jnp.array([6, 2, 4], jnp.int32), []
    _, cache = extend(split, decode.empty(own, 3, 12), tokens[:, :6], None)
    for i in range(6, 9):
      hidden, cache = extend(split, cache, tokens[:, i : i + 1], start)
      start, out = start + 1, [*out, hidden]
    return np.stack(out), cache

  want, _ = read('xla')
  with jax.numpy_rank_promotion('allow'):
    got, cache = read('tokamax')
  assert all(isinstance(x, paged_cache.Pages) for x in cache)
  np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)


def test_where_it_is_chosen(monkeypatch):
  assert not paged_cache.chosen('xla')
  assert not paged_cache.chosen('tokamax')  # no TPU is here: a line in the log
  monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
  assert not paged_cache.chosen('pallas')
  monkeypatch.setattr(paged_cache.importlib.util, 'find_spec', lambda _: None)
  with errors.raises(ValueError, 'model.decode_attention tokamax'):
    paged_cache.chosen('tokamax')
  monkeypatch.setattr(paged_cache.importlib.util, 'find_spec', lambda x: x)
  assert paged_cache.chosen('tokamax')
