"""Decoding with a cache is reading the whole row at once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import decode, kv_cache, transformer
from tests.nn import decoders

SLOW = pytest.mark.nightly


@pytest.mark.parametrize(
  ('first', 'name'),
  [
    (128, 'tied'),
    pytest.param(128, 'all', marks=SLOW),
    pytest.param(4, 'all', marks=SLOW),
    pytest.param(4, 'tied', marks=SLOW),
    pytest.param(4, 'windows', marks=SLOW),
    pytest.param(4, 'gemma', marks=SLOW),
  ],
)
def test_reading_in_chunks_is_reading_at_once(name, first, monkeypatch):
  """Ragged chunks of several slots, over one block or many."""
  monkeypatch.setattr(kv_cache, 'FIRST', first)
  shape = decoders.SHAPES[name]
  params = decoders.random_parameters(shape)
  rng = np.random.default_rng(2)
  n, total = 3, 21
  tokens = rng.integers(0, shape.vocab, (n, total)).astype(np.int32)
  whole = jax.jit(functools.partial(transformer.forward, shape))(
    params, tokens, jnp.zeros((n, total), jnp.int32)
  )
  extend = jax.jit(functools.partial(decode.forward_with_cache, shape))
  split = decode.prepare_decode_params(shape, params)
  read = decode.empty(shape, n, total + 8)
  lengths = np.array([6, 5, 4])
  hidden, read = extend(split, read, tokens[:, :6], None)
  for i, m in enumerate(lengths):
    np.testing.assert_allclose(
      hidden[i, :m], whole[i, :m], atol=1e-5, rtol=1e-5
    )
  start = lengths
  for width in (1, 4, 1, 1, 3):
    chunk = np.stack([tokens[i, s : s + width] for i, s in enumerate(start)])
    hidden, read = extend(split, read, chunk, jnp.asarray(start, jnp.int32))
    for i, s in enumerate(start):
      np.testing.assert_allclose(
        hidden[i], whole[i, s : s + width], atol=1e-5, rtol=1e-5
      )
    start = start + np.array([width, max(1, width - 1), width])
    start = np.minimum(start, total - 4)


@pytest.mark.parametrize('name', ['tied', 'gemma'])
def test_rounded_embeddings_are_those_of_the_stored_table(name):
  """Bit for bit; a scaled table stays in float32, a plain one does not."""
  shape = dataclasses.replace(decoders.SHAPES[name], dtype='bfloat16')
  params = decoders.random_parameters(shape)
  tokens = jnp.arange(shape.vocab)[None]
  split = decode.prepare_decode_params(shape, params)
  scaled = shape.embed_scale != 1
  assert split['embed'].dtype == (jnp.float32 if scaled else jnp.bfloat16)
  got, want = (transformer.embed(shape, p, tokens, 0) for p in (split, params))
  np.testing.assert_array_equal(got, want)
