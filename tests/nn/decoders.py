"""Shapes of small decoders, and random parameters of them."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import config, rope, transformer

SMALL = transformer.DecoderConfig(
  vocab=40, width=24, layers=2, heads=4, kv_heads=2, head_dim=6, mlp=32
)
SHAPES = {
  'tied': SMALL,
  'head': dataclasses.replace(SMALL, tied=False),
  'bias': dataclasses.replace(SMALL, bias=True),
  'qk_norm': dataclasses.replace(SMALL, qk_norm=True),
  'positions': dataclasses.replace(SMALL, positions=32),
  'all': dataclasses.replace(
    SMALL,
    positions=32,
    tied=False,
    bias=True,
    qk_norm=True,
    kv_heads=4,
    remat='layer',
  ),
  'windows': dataclasses.replace(
    SMALL,
    layers=4,
    windows=(3, 3, 0, 3),
    scaling=rope.Linear(4.0),
    local_theta=100.0,
  ),
  'deep_windows': dataclasses.replace(
    SMALL, layers=11, windows=(4, 2, 0) * 3 + (4, 2)
  ),
  'gemma': dataclasses.replace(
    SMALL,
    activation='gelu_tanh',
    query_size=9,
    score_cap=0.7,
    norm_offset=1.0,
    post_norm=True,
    embed_scale=1.7,
    qk_norm=True,
    windows=(3, 0),
  ),
  'biases': dataclasses.replace(
    SMALL, bias=True, out_bias=True, mlp_bias=True, activation='gelu'
  ),
  'experts': dataclasses.replace(SMALL, experts=5, top_k=2),
  'raw_experts': dataclasses.replace(
    SMALL, experts=3, top_k=2, unit_top_k=False, remat='layer'
  ),
}


def random_parameters(shape, seed=0):
  """Random everywhere, so that no scale or bias is left at its start."""
  params = mesh.init(transformer.specs(shape), jax.random.key(seed))
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  return jax.tree.unflatten(
    tree,
    [
      x + 0.1 * jax.random.normal(k, x.shape)
      for x, k in zip(leaves, keys, strict=True)
    ],
  )


@contextlib.contextmanager
def float64(monkeypatch):
  """Everything in float64, also what decoders always compute in float32."""
  with monkeypatch.context() as patch, jax.enable_x64(True):
    patch.setattr(jnp, 'float32', jnp.float64)
    patch.setattr(config, 'DTYPES', ('float64',))
    yield


def exact(shape, seed=0):
  """The shape and random parameters in float64; only inside `float64`."""
  params = random_parameters(shape, seed)
  params = jax.tree.map(lambda x: x.astype(jnp.float64), params)
  return dataclasses.replace(shape, dtype='float64'), params
