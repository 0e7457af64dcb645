"""The decode kernel equals attention over all positions with a mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import attention, decode_kernel


def arrays(rng, dtype, *, n=3, g=2, r=3, d=16, s=300):
  make = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)  # noqa: E731
  last = jnp.asarray(rng.permutation([0, s - 1, *rng.integers(0, s, n)])[:n])
  return make(n, g, r, d), make(n, g, d, s), make(n, g, s, d), last


def by_mask(q, k, v, last, *, window=0, size=0, cap=0.0):
  index = jnp.arange(v.shape[2])
  mask = index[None] <= last[:, None]
  if window:
    mask &= last[:, None] - index[None] < window
  return attention.whole(q, k, v, mask[:, None], size, cap)


@pytest.mark.parametrize('queries', [1, 3, 16, 17])
@pytest.mark.parametrize(
  'how',
  [{}, {'window': 5}, {'window': 200}, {'cap': 2.0}, {'size': 64}],
  ids=str,
)
def test_it_equals_a_mask(queries, how):
  rng = np.random.default_rng(queries)
  x = arrays(rng, jnp.float32, r=queries)
  got = decode_kernel.attend(*x, interpret=True, **how)
  np.testing.assert_allclose(got, by_mask(*x, **how), atol=2e-6)


@pytest.mark.parametrize('positions', [1, 127, 128, 129])
def test_rows_that_fill_no_block(positions):
  x = arrays(np.random.default_rng(0), jnp.float32, s=positions, n=2)
  got = decode_kernel.attend(*x, interpret=True)
  np.testing.assert_allclose(got, by_mask(*x), atol=2e-6)


def test_what_lies_behind_a_slot_may_be_anything():
  q, k, v, _ = arrays(np.random.default_rng(1), jnp.float32)
  last = jnp.array([0, 130, 255])
  want = decode_kernel.attend(q, k, v, last, interpret=True)
  behind = jnp.arange(v.shape[2])[None] > last[:, None]
  k = jnp.where(behind[:, None, None], 1e9, k)
  v = jnp.where(behind[:, None, :, None], -1e9, v)
  got = decode_kernel.attend(q, k, v, last, interpret=True)
  np.testing.assert_array_equal(got, want)


def test_half_precision():
  x = arrays(np.random.default_rng(2), jnp.bfloat16)
  got = decode_kernel.attend(*x, interpret=True)
  assert got.dtype == jnp.bfloat16
  exact = by_mask(*(a.astype(jnp.float32) for a in x[:3]), x[3])
  np.testing.assert_allclose(got.astype(jnp.float32), exact, atol=0.02)


def test_sizes_that_triton_takes():
  assert [d for d in range(8, 260) if decode_kernel.fits(d)] == [
    16, 32, 64, 128, 256,
  ]  # fmt: skip


def test_where_it_cannot_run_xla_reads(monkeypatch, caplog):
  assert not decode_kernel.chosen('xla', 64)
  assert not decode_kernel.chosen('pallas', 64)
  assert 'cpu' in caplog.text
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
  assert decode_kernel.chosen('pallas', 64)
  assert not decode_kernel.chosen('xla', 64)
  assert not decode_kernel.chosen('pallas', 48)
  assert '48' in caplog.text


def test_it_compiles_under_jit():
  x = arrays(np.random.default_rng(3), jnp.float32)
  run = jax.jit(lambda *x: decode_kernel.attend(*x, interpret=True))
  np.testing.assert_allclose(run(*x), by_mask(*x), atol=2e-6)
