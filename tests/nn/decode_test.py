"""Decoding with a cache is reading the whole row at once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from agentrl.nn import decode, decode_kernel, kv_cache, transformer
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
  for width in (1, 4, 1, 1):
    chunk = np.stack([tokens[i, s : s + width] for i, s in enumerate(start)])
    hidden, read = extend(split, read, chunk, jnp.asarray(start, jnp.int32))
    for i, s in enumerate(start):
      np.testing.assert_allclose(
        hidden[i], whole[i, s : s + width], atol=1e-5, rtol=1e-5
      )
    start = start + np.array([width, max(1, width - 1), width])
    start = np.minimum(start, total - 4)


@pytest.mark.parametrize(
  'name',
  ['tied', *(pytest.param(x, marks=SLOW) for x in ('all', 'windows', 'gemma'))],
)
def test_one_kernel_reads_the_cache_of_a_token(name, monkeypatch):
  """Token after token as XLA reads it; a chunk is not the kernel's."""
  attend = functools.partial(decode_kernel.attend, interpret=True)
  monkeypatch.setattr(decode_kernel, 'attend', attend)
  monkeypatch.setattr(decode_kernel, 'chosen', lambda x, _: x == 'pallas')
  shape, rng = decoders.SHAPES[name], np.random.default_rng(0)
  split = decode.prepare_decode_params(shape, decoders.random_parameters(shape))
  tokens = rng.integers(0, shape.vocab, (3, 9)).astype(np.int32)

  def read(attention):
    own = dataclasses.replace(shape, decode_attention=attention)
    forward = functools.partial(decode.forward_with_cache, own)
    extend, out = jax.jit(forward), []
    start = jnp.array([6, 2, 4], jnp.int32)
    _, cache = extend(split, decode.empty(own, 3, 12), tokens[:, :6], None)
    programs = [
      str(jax.make_jaxpr(forward)(split, cache, tokens[:, :n], start))
      for n in (6, 1)
    ]
    for i in range(6, 9):
      hidden, cache = extend(split, cache, tokens[:, i : i + 1], start)
      start, out = start + 1, [*out, hidden]
    return np.stack(out), [x.count('pallas_call[') for x in programs]

  (want, none), (got, kernels) = read('xla'), read('pallas')
  np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)
  assert none == [0, 0]
  assert kernels == [0, shape.layers]


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


LENGTHS, WIDTH = np.array([9, 1, 6]), 2  # of the families' prefixes, in slots


@pytest.mark.slow
@pytest.mark.parametrize(
  ('first', 'name'),
  [
    (4, 'tied'),
    pytest.param(128, 'all', marks=SLOW),
    pytest.param(4, 'windows', marks=SLOW),
    pytest.param(4, 'gemma', marks=SLOW),
    pytest.param(4, 'experts', marks=SLOW),
  ],
)
def test_reading_behind_a_shared_prefix_is_reading_all(
  name, first, monkeypatch
):
  """Chunks of slots that share prefixes of several lengths, in float64."""
  monkeypatch.setattr(kv_cache, 'FIRST', first)
  with decoders.float64(monkeypatch):
    read_both_ways(*decoders.exact(decoders.SHAPES[name]))


def read_both_ways(shape, params):
  split = decode.prepare_decode_params(shape, params)
  rng = np.random.default_rng(2)
  extend = jax.jit(functools.partial(decode.forward_with_cache, shape))
  families, most = len(LENGTHS), LENGTHS.max()
  n = families * WIDTH
  begin = rng.integers(0, shape.vocab, (families, most)).astype(np.int32)
  held = decode.empty(shape, families, most)
  _, held = extend(split, held, begin, None)
  prefix = decode.SharedPrefix(held, jnp.asarray(LENGTHS, jnp.int32))
  whole = decode.empty(shape, n, most + 8)
  _, whole = extend(split, whole, np.repeat(begin, WIDTH, axis=0), None)
  own, start = decode.empty(shape, n, 8), np.zeros(n, np.int32)
  base = np.repeat(LENGTHS, WIDTH).astype(np.int32)
  for i, width in enumerate((3, 1, 1)):
    chunk = rng.integers(0, shape.vocab, (n, width)).astype(np.int32)
    look = jnp.full(n, width - 1, jnp.int32)
    at = None if i == 0 else start  # None: from the end of the prefix on
    got, own = extend(split, own, chunk, at, look, prefix=prefix)
    want, whole = extend(split, whole, chunk, start + base, look)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, atol=1e-12, rtol=0)
    start = start + np.where(np.arange(n) % 2, width, 1).astype(np.int32)


def test_a_step_reads_the_prefix_once_for_its_family():
  """Keys and values in the program of a step: those of the prefix 1 / W."""
  shape = decoders.SHAPES['all']
  families, prompt, new = 3, 20, 16
  n = families * WIDTH
  params = decode.prepare_decode_params(
    shape, decoders.random_parameters(shape)
  )
  tokens, start = jnp.zeros((n, 1), jnp.int32), jnp.zeros(n, jnp.int32)
  length = jnp.full(families, prompt, jnp.int32)

  def positions(rows: int, cache, prefix=None):
    """Positions of slots whose keys a step looks at."""
    step = functools.partial(decode.forward_with_cache, shape)
    program = jax.make_jaxpr(step)(params, cache, tokens, start, None, prefix)
    size = 2 * shape.layers * shape.kv_heads * shape.head_dim
    return products(program.jaxpr) / size

  apart = positions(n, decode.empty(shape, n, prompt + new))
  held = decode.SharedPrefix(decode.empty(shape, families, prompt), length)
  together = positions(n, decode.empty(shape, n, new), held)
  assert apart == n * (prompt + new)
  assert together == n * new + n * prompt / WIDTH


def products(jaxpr) -> int:
  """Numbers in the larger side of every batched product."""
  count = 0
  for e in jaxpr.eqns:
    product = e.primitive.name == 'dot_general'
    if product and any(e.params['dimension_numbers'][1]):
      count += max(x.aval.size for x in e.invars)
    for inner in jaxprs_in_params(e.params):
      count += products(inner)
  return count


@pytest.mark.parametrize(('backend', 'conditions'), [('cpu', 2), ('gpu', 0)])
def test_a_step_on_a_card_has_no_condition(backend, conditions, monkeypatch):
  """Up to 1,024 positions; elsewhere each layer asks which blocks are used."""
  monkeypatch.setattr(jax, 'default_backend', lambda: backend)
  shape = decoders.SHAPES['tied']
  params = decoders.random_parameters(shape)
  params = decode.prepare_decode_params(shape, params)
  step = functools.partial(decode.forward_with_cache, shape)
  tokens, start = jnp.zeros((2, 1), jnp.int32), jnp.zeros(2, jnp.int32)
  program = jax.make_jaxpr(step)(
    params, decode.empty(shape, 2, 1024), tokens, start
  )
  assert str(program).count('cond[') == conditions
