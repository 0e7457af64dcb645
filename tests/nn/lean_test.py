"""What saves memory changes no number: kernels, remat, half precision."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import attention_kernels, transformer

PLAIN = transformer.DecoderConfig(
  vocab=20,
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp=16,
  windows=(0, 5),
  score_cap=5.0,
  query_size=8,
  attention='xla',
)
N, T = 2, 24


@functools.partial(jax.jit, static_argnums=0)
def learned(c: transformer.DecoderConfig, params, tokens, seg, bar):
  def loss(params):
    hidden = transformer.forward(c, params, tokens, seg)
    return jnp.sum(jnp.where((seg >= 0)[..., None], hidden, 0) * bar), hidden

  grads, hidden = jax.grad(loss, has_aux=True)(params)
  return jnp.where((seg >= 0)[..., None], hidden, 0), grads


def example():
  """Parameters, tokens, segments packed and ragged, a cotangent."""
  r = np.random.default_rng(0)
  params = mesh.init(transformer.specs(PLAIN), jax.random.key(0))
  tokens = r.integers(0, PLAIN.vocab, (N, T)).astype(np.int32)
  seg = np.zeros((N, T), np.int32)
  seg[0, 9:], seg[1, 20:] = 4, -1
  bar = 0.01 * r.normal(size=(N, T, PLAIN.width))
  return params, tokens, seg, np.float32(bar)


@functools.cache
def plainly():
  return learned(PLAIN, *example())


@pytest.mark.parametrize(
  'changed',
  [
    dict(attention='chunked', remat='layer'),
    pytest.param(dict(remat='dots'), marks=pytest.mark.nightly),
    pytest.param(
      dict(attention='chunked', remat='dots'), marks=pytest.mark.nightly
    ),
  ],
  ids=str,
)
def test_no_number_changes(changed, monkeypatch):
  monkeypatch.setattr(attention_kernels, 'CPU_BLOCK', 8)
  got = learned(dataclasses.replace(PLAIN, **changed), *example())
  chex.assert_trees_all_close(got, plainly(), rtol=1e-5, atol=1e-5)


def test_half_precision_is_near_and_kept_out_of_what_is_learned():
  half = dataclasses.replace(PLAIN, dtype='bfloat16')
  (got, grads), (want, exact) = learned(half, *example()), plainly()
  assert got.dtype == jnp.bfloat16
  assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(grads))
  np.testing.assert_allclose(np.float32(got), want, atol=0.1)
  for a, b in zip(*map(jax.tree.leaves, (grads, exact)), strict=True):
    assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(b)


def kept(c: transformer.DecoderConfig) -> int:
  """Numbers that the forward pass leaves for the backward pass."""
  params, tokens, seg, _ = example()
  read = lambda p: transformer.forward(c, p, tokens, seg)  # noqa: E731
  pull = jax.eval_shape(lambda p: jax.vjp(read, p)[1], params)
  return sum(x.size for x in jax.tree.leaves(pull))


def test_what_is_computed_again_is_not_kept():
  none, layer, dots = (
    kept(dataclasses.replace(PLAIN, remat=x)) for x in ('none', 'layer', 'dots')
  )
  assert layer < dots < none
