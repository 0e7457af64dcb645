"""Attention in blocks against all scores at once, in float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import chunked_attention, layers
from agentrl.nn.chunked_attention import AttentionConfig

N, T, H, G, D = 2, 13, 4, 2, 6


def example(seed: int = 0):
  """q, k, v, segments (packed, ragged, padding alone), a cotangent."""
  r = np.random.default_rng(seed)
  q, bar = r.normal(size=(2, N, T, H, D))
  k, v = r.normal(size=(2, N, T, G, D))
  seg = np.zeros((N, T), np.int32)
  seg[0, 5:], seg[0, 9:] = 7, -1
  return 2 * q, k, v, seg, bar


def dense(c: AttentionConfig, q, k, v, seg):
  """Head by head and token by token; float64."""
  out = np.zeros_like(q)
  for n, t, h in np.ndindex(q.shape[:3]):
    seen = [
      s
      for s in range(t + 1)
      if s == t
      or (seg[n, s] == seg[n, t] >= 0 and (not c.window or t - s < c.window))
    ]
    g = h // (H // G)
    score = k[n, seen, g] @ q[n, t, h] / np.sqrt(c.size or D)
    score = c.cap * np.tanh(score / c.cap) if c.cap else score
    p = np.exp(score - np.max(score))
    out[n, t, h] = (p / np.sum(p)) @ v[n, seen, g]
  return out


@functools.partial(jax.jit, static_argnums=0)
def run(c: AttentionConfig, q, k, v, seg, bar):
  """The answers, and cotangents of q, k and v."""
  until = layers.segment_until(seg)
  attend = functools.partial(chunked_attention.attend, c, until_NT=until)
  out, pull = jax.vjp(attend, q, k, v)
  return out, *pull(bar)


def single(tree):
  return jax.tree.map(lambda x: np.asarray(x, np.float32), tree)


CASES = [
  AttentionConfig(block=4),
  AttentionConfig(block=5, window=3),
  AttentionConfig(block=64, size=9, cap=2.0),
  AttentionConfig(block=1, window=1),
]


@pytest.mark.parametrize('c', CASES, ids=str)
def test_is_attention_of_all_scores(c):
  q, k, v, seg, bar = example()
  out, *bars = run(c, *single((q, k, v)), seg, *single((bar,)))
  np.testing.assert_allclose(out, dense(c, q, k, v, seg), rtol=1e-5, atol=1e-5)
  r = np.random.default_rng(1)
  to = [r.normal(size=x.shape) for x in (q, k, v)]  # a random direction
  far = [
    np.sum(
      bar
      * dense(
        c, *(x + s * 1e-5 * d for x, d in zip((q, k, v), to, strict=True)), seg
      )
    )
    for s in (1, -1)
  ]
  slope = sum(np.sum(x * d) for x, d in zip(bars, to, strict=True))
  np.testing.assert_allclose(
    slope, (far[0] - far[1]) / 2e-5, rtol=1e-4, atol=1e-4
  )


@pytest.mark.parametrize(
  ('sizes', 'explicit'),
  [
    ({'fsdp': 2, 'tensor': 2}, True),
    ({'fsdp': 2, 'tensor': 2}, False),
    ({'sequence': 3, 'tensor': 2}, True),
  ],
  ids=str,
)
def test_tokens_and_heads_over_devices_are_the_same(sizes, explicit):
  """Twelve tokens over three devices, in blocks that do not divide four."""
  c, args = AttentionConfig(block=3, window=6), single(example())
  *args, bar = (x[:, :12] for x in args)
  args[3] = args[3].astype(np.int32)
  want = run(c, *args, bar)
  with jax.set_mesh(mesh.make(sizes, explicit=explicit)):
    got = jax.tree.map(np.asarray, run(c, *placed(*args, bar)))
  chex.assert_trees_all_close(got, want, rtol=1e-5, atol=1e-5)


def placed(q, k, v, seg, bar):
  """The arguments of `run` on the mesh that is set."""
  query, key = chunked_attention.query(), chunked_attention.key()
  axes = query, key, key, chunked_attention.ROW, query
  return [
    jax.device_put(x, mesh.spec(*a))
    for x, a in zip((q, k, v, seg, bar), axes, strict=True)
  ]


def test_each_device_gets_the_gradients_of_its_own_keys():
  """Summed where they are dealt: nothing as long as a row is sent whole."""
  args = single(example())
  args = [x[:, :12] for x in args]
  args[3] = args[3].astype(np.int32)
  with jax.set_mesh(mesh.make({'sequence': 3})):
    lowered = run.lower(AttentionConfig(block=4), *placed(*args))
  text = lowered.as_text()
  assert text.count('reduce_scatter') == 2  # of keys and of values
  assert 'all_reduce' not in text


def test_other_segments_are_not_even_read():
  """NaN in the blocks of one segment stay there: forwards and backwards."""
  q, k, v, seg, bar = single(example(2))
  seg = np.repeat([[0, 1, 2]], 4, axis=1).reshape(1, 12).astype(np.int32)
  parts = [x[:1, :12].copy() for x in (q, k, v)]
  for x in parts:
    x[:, 4:8] = np.nan
  for x in run(AttentionConfig(block=4), *parts, seg, bar[:1, :12]):
    assert np.all(np.isnan(x[:, 4:8]))
    chex.assert_tree_all_finite((x[:, :4], x[:, 8:]))


def test_half_precision_sums_in_full():
  q, k, v, seg, bar = example(3)
  half = [jnp.asarray(x, jnp.bfloat16) for x in (q, k, v, bar)]
  out, *_ = run(AttentionConfig(block=4), *half[:3], seg, half[3])
  want = dense(
    AttentionConfig(), *(np.asarray(x, np.float64) for x in half[:3]), seg
  )
  assert out.dtype == jnp.bfloat16
  np.testing.assert_allclose(np.float32(out), want, atol=2e-2)
