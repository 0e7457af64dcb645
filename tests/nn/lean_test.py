"""What saves memory changes no number: kernels, remat, half precision."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from agentrl import mesh
from agentrl.nn import attention_kernels, transformer
from agentrl.nn.config import REMAT

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
    dict(attention='chunked', remat='attention'),
    pytest.param(dict(remat='attention'), marks=pytest.mark.nightly),
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


LESS = [PLAIN, dataclasses.replace(PLAIN, attention='chunked')]


@pytest.mark.parametrize('c', LESS, ids=['xla', 'chunked'])
def test_what_is_computed_again_is_not_kept(c):
  each = [kept(dataclasses.replace(c, remat=x)) for x in REMAT]
  assert each == sorted(set(each), reverse=True)
  # Attention keeps its answers and a number for each head of a token beside
  # what a layer is read from.
  *_, attention, layer = each
  assert attention - layer == c.layers * N * T * c.heads * (c.head_dim + 1)


def products(jaxpr) -> int:
  """Products in a jaxpr and in those inside of it."""
  return sum(
    (x.primitive.name == 'dot_general')
    + sum(map(products, jaxprs_in_params(x.params)))
    for x in jaxpr.eqns
  )


@pytest.mark.parametrize('c', LESS, ids=['xla', 'chunked'])
def test_each_policy_computes_again_what_it_says(c):
  """Products of a layer in the gradient, of those that `none` has."""
  given, made = example(), {}
  for x in REMAT:
    run = functools.partial(learned, dataclasses.replace(c, remat=x))
    made[x] = products(jax.make_jaxpr(run)(*given).jaxpr)
  again = {x: (n - made['none']) // c.layers for x, n in made.items()}
  blocks = c.attention == 'chunked'  # computes its scores again by itself
  dots = 0 if blocks else 1  # scores
  # q, k, v, o, gate and up; down is read by nothing.
  assert again == {
    'none': 0,
    'dots': dots,
    'attention': dots + 6,
    'layer': 6 + 2,
  }


@pytest.mark.nightly
@pytest.mark.parametrize('attention', ['xla', 'chunked'])
def test_a_stricter_policy_takes_less_memory(attention, monkeypatch):
  """By the compiler: temporaries of a gradient through a loop of layers."""
  monkeypatch.setattr(transformer, 'UNROLL', 2)
  c = dataclasses.replace(PLAIN, attention=attention, layers=8, windows=())
  _, *given = example()
  given = (mesh.init(transformer.specs(c), jax.random.key(0)), *given)
  sizes, grads = [], []
  for x in REMAT:
    run = learned.lower(dataclasses.replace(c, remat=x), *given).compile()
    sizes.append(run.memory_analysis().temp_size_in_bytes)
    grads.append(run(*given))
  assert sizes == sorted(set(sizes), reverse=True)
  for got in grads[1:]:
    chex.assert_trees_all_close(got, grads[0], rtol=1e-6, atol=1e-6)
