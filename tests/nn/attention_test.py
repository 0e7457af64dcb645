"""Attention over rows and over parts of them, in float64 against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import attention, layers

N, T, H, G, D = 2, 7, 4, 2, 3


def example():
  r = np.random.default_rng(0)
  q = r.normal(size=(N, T, H, D))
  k, v = r.normal(size=(2, N, T, G, D))
  seg = np.zeros((N, T), np.int32)
  seg[0, 3:], seg[1, 6] = 5, -1
  return q, k, v, seg


def row_mask(seg, window=0):
  return attention.row_mask(layers.segment_until(jnp.asarray(seg)), window)


def test_a_mask_is_causal_inside_segments_and_windows():
  seg = np.array([[0, 0, 1, 1, 1, -1]])
  for window in (0, 2):
    got = row_mask(seg, window)[0]
    for t, s in np.ndindex(6, 6):
      sees = s <= t and seg[0, s] == seg[0, t] >= 0
      near = not window or t - s < window
      assert bool(got[t, s]) == ((sees and near) or s == t)


@pytest.mark.parametrize('cap', [0.0, 2.0])
def test_attend_is_a_softmax_over_what_is_seen(cap):
  q, k, v, seg = example()
  with jax.enable_x64(True):
    mask = row_mask(seg)
    got = attention.attend(*map(jnp.asarray, (q, k, v)), mask, 9, cap)
  for n, t, h in np.ndindex(N, T, H):
    seen = np.flatnonzero(mask[n, t])
    score = k[n, seen, h // 2] @ q[n, t, h] / 3
    score = cap * np.tanh(score / cap) if cap else score
    p = np.exp(score) / np.sum(np.exp(score))
    np.testing.assert_allclose(got[n, t, h], p @ v[n, seen, h // 2], rtol=1e-5)


def test_a_row_of_padding_alone_is_finite():
  q, k, v, _ = map(jnp.asarray, example())
  out = attention.attend(q, k, v, jnp.zeros((N, T, T), bool))
  assert np.all(np.isfinite(out))


def test_parts_of_the_keys_combine_to_the_whole():
  q, k, v, seg = map(jnp.asarray, example())
  mask = row_mask(seg)
  want = attention.attend(q, k, v, mask)
  heads = attention.split_heads(q, G)
  np.testing.assert_array_equal(attention.join_heads(heads, q.shape), q)
  parts = [
    attention.part(
      heads,
      jnp.transpose(k[:, at], (0, 2, 3, 1)),
      jnp.swapaxes(v[:, at], 1, 2),
      mask[:, :, at],
    )
    for at in (slice(0, 2), slice(2, T))
  ]
  got = attention.join_heads(attention.combine(parts), q.shape)
  seen = np.asarray(seg) >= 0
  np.testing.assert_allclose(got[seen], want[seen], rtol=1e-5)
