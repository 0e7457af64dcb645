"""Small layers against NumPy, in float64 where they allow it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import layers

R = np.random.default_rng(0)


@pytest.mark.parametrize('offset', [0.0, 1.0])
def test_rms_norm(offset):
  x, scale = R.normal(size=(2, 3, 5)), R.normal(size=5)
  want = x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-3)
  got = layers.rms_norm(jnp.asarray(scale), jnp.asarray(x), 1e-3, offset)
  np.testing.assert_allclose(got, want * (offset + scale), rtol=2e-6)


def test_soft_cap_is_the_identity_near_zero_and_never_beyond_the_cap():
  x = jnp.asarray([-1e4, -1e-3, 0.0, 1e-3, 1e4])
  got = layers.soft_cap(x, 5.0)
  np.testing.assert_allclose(got, [-5, -1e-3, 0, 1e-3, 5], rtol=1e-6)
  assert layers.soft_cap(x, 0.0) is x


def test_dense_contracts_several_axes_at_either_end():
  with jax.enable_x64(True):
    x, w = R.normal(size=(2, 3, 4, 5)), R.normal(size=(4, 5, 6, 7))
    got = layers.dense(
      jnp.asarray(x), jnp.asarray(w), ('heads', None), ('mlp', None)
    )
    np.testing.assert_allclose(got, np.einsum('ntab,abcd->ntcd', x, w))


def test_positions_restart_with_every_segment():
  seg = jnp.asarray([[0, 0, 0, 4, 4, -1], [2, 3, 3, 3, 3, 3]])
  until = layers.segment_until(seg)
  want = [[2, 2, 2, 4, 4, -1], [0, 5, 5, 5, 5, 5]]
  np.testing.assert_array_equal(until, want)
  want = [[0, 1, 2, 0, 1, 0], [0, 0, 1, 2, 3, 4]]
  np.testing.assert_array_equal(layers.positions(until), want)


@pytest.mark.parametrize('tokens', [4, 6, 100])
def test_over_time_is_f_where_somebody_looks_and_blank_elsewhere(tokens):
  x = jnp.asarray(R.normal(size=(2, 7)))
  look = jnp.zeros((2, 7), bool).at[0, 6].set(True)
  got = layers.map_chunks(jnp.exp, jnp.zeros_like, (x,), look, tokens)
  np.testing.assert_allclose(got[:, 6], np.exp(x[:, 6]), rtol=1e-6)
  whole = tokens == 100  # one chunk: everybody is looked at
  first = np.exp(x[:, 0]) if whole else np.zeros(2)
  np.testing.assert_allclose(got[:, 0], first, rtol=1e-6)
