"""Gradients added up micro-batch by micro-batch are those of the whole."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, types
from agentrl.model import microbatch, policy
from agentrl.nn import transformer

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


def rows() -> types.Rows:
  r = np.random.default_rng(0)
  ids = jnp.zeros((N, T), jnp.int32)
  sampled = jnp.asarray(r.random((N, T)) < 0.5)
  return types.Rows(
    tokens=jnp.asarray(r.integers(0, 16, (N, T)), jnp.int32),
    seg=ids,
    traj=ids,
    turn=ids,
    span=ids.astype(jnp.int8),
    sampled=sampled,
    weight=sampled.astype(jnp.float32),
    logp=ids.astype(jnp.float32),
    version=ids,
  )


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
