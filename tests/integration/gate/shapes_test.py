"""A policy's loss and gradient are the same on every mesh of eight devices."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import microbatch, policy
from agentrl.nn import transformer
from tests.batches import place
from tests.model.rows import make

N, T, MICRO = 16, 13, 8  # 13 tokens divide over nothing
BASE = dict(
  vocab=4160, width=16, layers=2, heads=8, kv_heads=8, head_dim=4, mlp=16
)
# Between them: biases, windows, caps, untied and tied heads, remat.
DENSE = transformer.DecoderConfig(
  **BASE, bias=True, qk_norm=True, positions=16, remat='layer'
)
EXPERTS = transformer.DecoderConfig(
  **BASE, experts=8, top_k=2, tied=False, windows=(4, 0), logit_cap=9.0
)
SHAPES = [
  sizes
  for sizes in itertools.product((1, 2, 4, 8), repeat=len(mesh.AXES))
  if math.prod(sizes) == 8
]
FAST = [(1, 2, 1, 2, 2)]


def decoder(sizes) -> transformer.DecoderConfig:
  """Experts where a mesh splits them."""
  return (
    EXPERTS if dict(zip(mesh.AXES, sizes, strict=True))['expert'] > 1 else DENSE
  )


def rows():
  """Packed and padded; one row has nothing to say."""
  r = np.random.default_rng(0)
  seg = np.zeros((N, T), np.int32)
  seg[1, 7:], seg[2, 9:], seg[3], seg[4, 4:] = 1, -1, -1, 2
  sampled = (r.random((N, T)) < 0.6) & (seg >= 0)
  sampled[:, 0] = False
  return make(r.integers(1, BASE['vocab'], (N, T)), sampled, seg)


def loss(out, rows, scale):
  weight = rows.weight * scale
  return jnp.sum(weight * (out.logp + 0.1 * out.entropy)), {}


@functools.partial(jax.jit, static_argnums=0)
def gradient(shape, params, rows, scale):
  apply = policy.module(shape).apply
  total = microbatch.objective(apply, ('entropy', 'logp'), loss)
  return microbatch.gradient(total, params, rows, scale, MICRO)


def run(shape):
  """Gradient and loss on the mesh that is set; the specs of the policy."""
  specs = policy.module(shape).specs
  params = mesh.init(specs, jax.random.key(0))
  batch = rows()
  scale = np.sin(np.arange(N * T, dtype=np.float32)).reshape(N, T)
  if mesh.active():
    batch, scale = place((batch, scale), (N, T))
  grads, (value, _) = gradient(shape, params, batch, scale)
  return grads, value, specs


@functools.cache
def alone(shape):
  return jax.tree.map(np.asarray, run(shape)[:2])


def check(sizes, explicit):
  shape = decoder(sizes)
  made = mesh.make(dict(zip(mesh.AXES, sizes, strict=True)), explicit=explicit)
  with jax.set_mesh(made):
    grads, value, specs = run(shape)
    stored = mesh.shardings(specs)
  grads_want, value_want = alone(shape)
  np.testing.assert_allclose(value, value_want, rtol=1e-5)
  largest = max(np.max(np.abs(x)) for x in jax.tree.leaves(grads_want))
  assert largest > 0.1
  leaves = jax.tree.leaves_with_path(grads)
  wanted = jax.tree.leaves(grads_want), jax.tree.leaves(stored)
  for (path, got), want, lies in zip(leaves, *wanted, strict=True):
    name = jax.tree_util.keystr(path)
    np.testing.assert_allclose(
      got, want, rtol=0, atol=1e-5 * largest, err_msg=name
    )
    # A gradient lies as its parameter does: on no device whole if that is cut.
    # Automatic axes leave that to the compiler, until the optimizer says so.
    assert not explicit or got.sharding.is_equivalent_to(lies, got.ndim), name


@pytest.mark.parametrize(
  'sizes',
  [
    pytest.param(s, marks=() if s in FAST else pytest.mark.nightly)
    for s in SHAPES
  ],
  ids=str,
)
def test_explicit_axes(sizes):
  check(sizes, True)


@pytest.mark.nightly
@pytest.mark.parametrize('sizes', [(2, 1, 1, 2, 2), (1, 2, 4, 1, 1)], ids=str)
def test_automatic_axes(sizes):
  check(sizes, False)
