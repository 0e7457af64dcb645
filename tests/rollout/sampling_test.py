"""Tokens follow what is left; their log-probs are those before the cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from agentrl.rollout import sampling

draw = jax.jit(sampling.draw)


def many(logits, n, **kwargs):
  keys = jax.random.split(jax.random.key(0), n)
  rows = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (n, len(logits)))
  temperature = jnp.full(n, kwargs.pop('temperature', 1.0))
  cut = [jnp.asarray(kwargs.get(*x)) for x in (('top_k', 0), ('top_p', 1.0))]
  return jax.device_get(draw(rows, keys, temperature, *cut))


@pytest.mark.parametrize(
  ('vocab', 'temperature'), [(5, 2.0), (64, 1.0), (200, 0.5)]
)
def test_frequencies_follow_the_softmax(vocab, temperature):
  logits = np.random.default_rng(vocab).normal(size=vocab)
  n = 40_000
  token, logp, entropy = many(logits, n, temperature=temperature)
  p = np.exp(logits / temperature - np.logaddexp.reduce(logits / temperature))
  count = np.bincount(token, minlength=vocab)
  keep = p * n > 5
  expected = np.append(p[keep] * n, p[~keep].sum() * n + 1e-9)
  seen = np.append(count[keep], count[~keep].sum())
  chi = np.sum((seen - expected) ** 2 / np.maximum(expected, 1))
  assert chi < stats.chi2.ppf(1 - 1e-6, len(expected))
  np.testing.assert_allclose(logp, np.log(p)[token], atol=1e-5)
  np.testing.assert_allclose(entropy, -np.sum(p * np.log(p)), rtol=1e-4)


def test_temperature_zero_takes_the_likeliest():
  logits = np.linspace(0, 1, 150)
  logits[[70, 71, 140]] = [3.0, 2.9, 3.0]  # the first of equals
  token, logp, entropy = many(logits, 50, temperature=0.0)
  assert set(token.tolist()) == {70}
  assert not logp.any()
  assert not entropy.any()


def test_impossible_tokens_are_never_drawn():
  logits = np.full(130, sampling.NEVER)
  logits[[3, 77, 129]] = [0.0, 1.0, 0.5]
  token, _, _ = many(logits, 5000)
  assert set(token.tolist()) == {3, 77, 129}


@pytest.mark.parametrize(
  ('cut', 'inside'),
  [
    ({'top_k': 9}, [0, 1, 2, 3, 4]),
    ({'top_k': 3}, [0, 1, 3]),
    ({'top_p': 0.55}, [0]),
    ({'top_p': 0.75}, [0, 1]),
    ({'top_k': 3, 'top_p': 0.9}, [0, 1, 3]),
    ({'top_k': 3, 'top_p': 0.85}, [0, 1]),  # 0.86 of what three have
    ({'top_k': 4, 'top_p': 0.55}, [0]),
  ],
)
def test_frequencies_follow_what_is_left_at_the_temperature(cut, inside):
  """softmax(logits / 0.7) is cut: 0.75 of it are two, of the other three."""
  logits = np.log([0.45, 0.25, 0.08, 0.16, 0.06])
  n = 40_000
  token, logp, entropy = many(logits, n, temperature=0.7, **cut)
  p = np.zeros(5)
  p[inside] = np.exp(logits[inside] / 0.7)
  p /= p.sum()
  whole = np.exp(logits / 0.7) / np.exp(logits / 0.7).sum()
  count = np.bincount(token, minlength=5)
  assert not count[p == 0].any()
  at = np.array(inside)
  chi = np.sum((count[at] - n * p[at]) ** 2 / (n * p[at]))
  assert chi < stats.chi2.ppf(1 - 1e-6, max(len(inside) - 1, 1))
  np.testing.assert_allclose(logp, np.log(whole[token]), atol=1e-5)
  want = -np.sum(p[at] * np.log(p[at]))
  np.testing.assert_allclose(entropy, want, rtol=1e-4, atol=1e-5)


def test_a_row_draws_the_same_in_any_company():
  logits = jnp.asarray(np.random.default_rng(0).normal(size=(8, 30)))
  keys = jax.random.split(jax.random.key(1), 8)
  ones = jnp.ones(8)
  together = draw(logits, keys, ones)[0]
  for i in range(8):
    at = slice(i, i + 1)
    alone = draw(logits[at], keys[at], ones[at])[0]
    assert alone[0] == together[i]


def test_each_row_is_cut_by_its_own_numbers():
  rng = np.random.default_rng(0)
  logits = jnp.asarray(rng.normal(size=(6, 40)), jnp.float32)
  k, p = [0, 3, 0, 5, 40, 1], [1.0, 1.0, 0.6, 0.5, 0.9, 0.3]
  got = sampling.truncate(logits, jnp.array(k), jnp.array(p))
  for i in range(6):
    alone = sampling.truncate(logits[i : i + 1], k[i], p[i])
    np.testing.assert_array_equal(got[i], alone[0])
  assert (got > sampling.NEVER).sum(1).tolist()[0] == 40


def test_a_nucleus_ends_where_its_mass_is_reached():
  logits = jnp.log(jnp.array([[0.4, 0.3, 0.2, 0.06, 0.04]]))
  got = sampling.truncate(logits, 0, 0.4)
  assert (got[0] > sampling.NEVER).tolist() == [True] + [False] * 4


def test_nothing_is_cut_where_nobody_asked():
  logits = jnp.asarray(np.random.default_rng(1).normal(size=(3, 9)))
  zero, one = jnp.zeros(3, jnp.int32), jnp.ones(3)
  np.testing.assert_array_equal(sampling.truncate(logits, zero, one), logits)
