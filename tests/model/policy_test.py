"""The two ways through a head, chosen by the size of the vocabulary."""

import contextlib
import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import policy
from agentrl.nn import transformer
from tests.model.rows import make

SMALL = transformer.DecoderConfig(
  vocab=24, width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16
)
NEEDS = ('entropy', 'logp', 'sum_sq_prob')
N, T = 4, 9


def rows():
  """Prompts of three tokens, answers of some more, then padding."""
  r = np.random.default_rng(0)
  at = np.broadcast_to(np.arange(T), (N, T))
  used = at < r.integers(5, T + 1, (N, 1))
  tokens = r.integers(0, SMALL.vocab, (N, T))
  return make(tokens, used & (at >= 3), np.where(used, 0, -1))


def learned(shape, sizes=None):
  """Outputs, and a gradient that all of them have a part in."""
  context = contextlib.nullcontext()
  if sizes:
    context = jax.set_mesh(mesh.make(sizes))
  bars = np.random.default_rng(1).normal(size=(len(NEEDS), N, T))
  module = policy.module(shape, 0.7)

  def loss(params, rows, bars):
    out = module.apply(params, rows, NEEDS)
    told = [out.entropy, out.logp, out.sum_sq_prob]
    total = sum(jnp.sum(a * b) for a, b in zip(told, bars, strict=True))
    return total, told

  with context:
    params = mesh.init(module.specs, jax.random.key(0))
    given = rows(), list(np.float32(bars))
    if sizes:
      put = lambda x: jax.device_put(x, mesh.spec('batch', None))  # noqa: E731
      given = jax.tree.map(put, given)
    grad = jax.jit(jax.grad(loss, has_aux=True))
    return jax.tree.map(np.asarray, grad(params, *given))


SLOW = pytest.mark.nightly


@pytest.mark.parametrize(
  ('tied', 'sizes'),
  [
    (True, {'fsdp': 2, 'tensor': 4}),
    (False, ()),
    pytest.param(True, (), marks=SLOW),
    pytest.param(False, {'fsdp': 2, 'tensor': 4}, marks=SLOW),
  ],
  ids=str,
)
def test_a_large_vocabulary_reads_as_a_small_one(tied, sizes, monkeypatch):
  shape = dataclasses.replace(SMALL, tied=tied)
  want = learned(shape)
  monkeypatch.setattr(policy, 'WORDS', SMALL.vocab - 1)
  monkeypatch.setattr(policy, '_read', None)  # nobody goes that way
  got = learned(shape, sizes)
  chex.assert_trees_all_close(got, want, rtol=1e-4, atol=1e-4)
