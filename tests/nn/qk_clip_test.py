"""QK-clip against loops over heads and tokens, in float64."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import layers, qk_clip, transformer
from agentrl.nn.chunked_attention import AttentionConfig

N, T, D = 2, 13, 6
SHAPE = transformer.DecoderConfig(
  vocab=20, width=12, layers=1, heads=4, kv_heads=4, head_dim=D, mlp=16
)


def example(heads: int, groups: int):
  """q, k, segments: packed, ragged, padding alone."""
  r = np.random.default_rng(heads + groups)
  q, k = r.normal(size=(N, T, heads, D)), r.normal(size=(N, T, groups, D))
  seg = np.zeros((N, T), np.int32)
  seg[0, 5:], seg[0, 9:] = 7, -1
  q[seg < 0] *= 9  # nobody looks at padding
  return q, k, seg


def loops(c: AttentionConfig, q, k, seg):
  out = np.full((N, q.shape[2]), -1e30)
  for n, t, h in np.ndindex(q.shape[:3]):
    for s in range(t + 1):
      near = not c.window or t - s < c.window
      if near and seg[n, s] == seg[n, t] >= 0:
        g = h // (q.shape[2] // k.shape[2])
        score = k[n, s, g] @ q[n, t, h] / np.sqrt(c.size or D)
        out[n, h] = max(out[n, h], score)
  return out


@functools.partial(jax.jit, static_argnums=0)
def largest(c: AttentionConfig, q, k, seg):
  return qk_clip.largest_logits(c, q, k, layers.segment_until(seg))


@pytest.mark.parametrize('heads', [(4, 4), (4, 2), (3, 1)])
@pytest.mark.parametrize(
  'c',
  [
    AttentionConfig(block=4),
    AttentionConfig(block=5, window=3),
    AttentionConfig(size=9),
    AttentionConfig(block=1),
  ],
)
def test_largest_logits_are_those_of_loops(c, heads):
  args = example(*heads)
  with jax.enable_x64(True):
    got = largest(c, *args)
  np.testing.assert_allclose(got, loops(c, *args), rtol=1e-12)


@pytest.mark.parametrize('explicit', [True, False])
def test_on_a_mesh_that_splits_rows_tokens_and_heads(explicit):
  q, k, seg = example(4, 2)
  q, k = (np.asarray(x[:, :12], np.float32) for x in (q, k))
  sizes = {'data': 2, 'sequence': 2, 'tensor': 2}
  with jax.set_mesh(mesh.make(sizes, explicit=explicit)):
    got = largest(AttentionConfig(block=4), q, k, seg[:, :12])
  want = loops(AttentionConfig(), q, k, seg[:, :12])
  np.testing.assert_allclose(got, want, rtol=1e-5)


def decoder(kv_heads: int):
  """A decoder in float64, whose biases are not 0, and rows."""
  c = dataclasses.replace(SHAPE, kv_heads=kv_heads, bias=True)
  specs, r = transformer.specs(c), np.random.default_rng(0)
  params = jax.tree.map(
    lambda p: 0.7 * r.normal(size=p.shape), specs, is_leaf=mesh.is_param
  )
  return c, params, r.integers(0, 20, (3, 9)), np.zeros((3, 9), np.int32)


def logits(c, params, tokens, seg):
  """The largest logit of each head of the decoder over the rows: [L, H]."""
  look = qk_clip.largest_logits
  read = jax.jit(transformer.routed, static_argnums=(0, 4))
  _, out = read(c, params, tokens, seg, look)
  return np.max(np.asarray(out), axis=1)


@pytest.mark.parametrize(
  'kv_heads', [2, pytest.param(4, marks=pytest.mark.nightly)]
)
def test_a_head_over_tau_comes_down_to_tau_and_others_stay(kv_heads):
  with jax.enable_x64(True):
    c, params, *rows = decoder(kv_heads)
    before = logits(c, params, *rows)
    tau = float(np.median(before))
    after_params = qk_clip.clip(params, jnp.asarray(before), tau)
    after = logits(c, after_params, *rows)
  np.testing.assert_allclose(after, np.minimum(before, tau), rtol=1e-5)
  assert np.any(before > tau)
  gamma = np.where(before > tau, tau / before, 1)
  root = {4: np.sqrt(gamma), 2: gamma}[kv_heads][:, None, :, None]
  new, old = after_params['layers'], params['layers']
  np.testing.assert_allclose(new['q'], root * old['q'], rtol=1e-12)
  np.testing.assert_allclose(new['q_bias'], root[:, 0] * old['q_bias'])
  key = root if kv_heads == 4 else 1.0
  np.testing.assert_allclose(new['k'], key * old['k'], rtol=1e-12)
  for name in old.keys() - {'q', 'k', 'q_bias', 'k_bias'}:
    np.testing.assert_array_equal(new[name], old[name])


@pytest.mark.parametrize('logit', [3.0, np.inf, np.nan, -1e30])
def test_below_tau_and_beyond_numbers_nothing_changes(logit):
  params = jax.tree.map(np.float32, decoder(4)[1])
  new = qk_clip.clip(params, jnp.full((1, 4), logit), 3.0)
  jax.tree.map(np.testing.assert_array_equal, new, params)
