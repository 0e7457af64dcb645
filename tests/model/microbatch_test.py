"""Gradients added up micro-batch by micro-batch are those of the whole."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import microbatch, policy
from agentrl.model.pieces import MicroBatch
from agentrl.nn import transformer
from tests.model.rows import make

N, T = 4, 12


def shape(layers: int, windows=()) -> transformer.DecoderConfig:
  return transformer.DecoderConfig(
    vocab=16,
    width=8,
    layers=layers,
    heads=2,
    kv_heads=2,
    head_dim=4,
    mlp=8,
    windows=windows,
  )


def rows():
  r = np.random.default_rng(0)
  sampled = r.random((N, T)) < 0.5
  return make(r.integers(0, 16, (N, T)), sampled)


def loss(out, rows, scale):
  return jnp.sum(out.logp * scale), {}


@pytest.mark.parametrize(
  ('layers', 'windows'),
  [(2, ()), (3, (0, 4, 0))],
)
@pytest.mark.nightly
def test_the_sum_of_micro_batches(layers, windows):
  module = policy.module(shape(layers, windows))
  params = mesh.init(module.specs, jax.random.key(0))
  batch, scale = rows(), jnp.arange(N * T, dtype=jnp.float32).reshape(N, T)

  def whole(params):
    return loss(module.apply(params, batch, ('logp',)), batch, scale)[0]

  want, grads = jax.value_and_grad(whole)(params)
  total = microbatch.objective(module.apply, ('logp',), loss)
  got, (value, _) = microbatch.gradient(total, params, batch, scale, 2)
  np.testing.assert_allclose(value, want, rtol=1e-5)
  chex.assert_trees_all_close(got, grads, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
  'fold', [pytest.param(False, marks=pytest.mark.nightly), True]
)
@pytest.mark.parametrize(
  'layers', [1, pytest.param(3, marks=pytest.mark.nightly)]
)
def test_seeds_beside_each_other(fold, layers, monkeypatch):
  """A vmapped gradient is each one's, with as many rows as it has.

  In chunks that nobody may look at; three layers are a loop.
  """
  monkeypatch.setattr(transformer, 'CHUNK', 8)
  monkeypatch.setattr(transformer, 'UNROLL', 2)
  module = policy.module(shape(layers))
  total = microbatch.objective(module.apply, ('logp',), loss)
  scale = jnp.arange(N * T, dtype=jnp.float32).reshape(N, T)

  def one(params, keep, in_place=True):
    micro = MicroBatch(2, fold, in_place=in_place)
    return microbatch.gradient(total, params, rows(), scale, micro, keep)

  keep = jnp.arange(N)[None] < jnp.array([[N], [1]])
  params = jax.vmap(lambda k: mesh.init(module.specs, k))(
    jax.random.split(jax.random.key(0), 2)
  )
  got = jax.jit(jax.vmap(functools.partial(one, in_place=False)))(params, keep)
  for i in range(2):
    own = jax.tree.map(lambda x: x[i], params)
    want = jax.jit(one)(own, keep[i])
    mine = jax.tree.map(lambda x: x[i], got)
    chex.assert_trees_all_close(mine, want, rtol=1e-4, atol=1e-4)


def test_rows_left_out_fill_no_micro_batch():
  """Three of four rows, of which the second micro-batch has one."""
  keep = jnp.array([True, False, True, True])
  batch = rows().replace(logp=jnp.full((N, T), -100.0))
  extras = jnp.full((N, T), -100.0)

  def seen(params, rows, extras):
    live = rows.seg >= 0
    gone = jnp.sum(jnp.where(live, 0, jnp.abs(rows.logp) + jnp.abs(extras)))
    return params, (jnp.sum(rows.sampled), jnp.sum(live), gone)

  run = jax.jit(microbatch.gradient, static_argnums=(0, 4))
  for fold in (False, True):
    _, (_, (sampled, live, gone)) = run(
      seen, jnp.zeros(()), batch, extras, MicroBatch(2, fold), keep
    )
    assert sampled == jnp.sum(batch.sampled[keep])
    assert live == jnp.sum(batch.seg[keep] >= 0)
    assert gone == 0  # nothing that a ratio could overflow with
