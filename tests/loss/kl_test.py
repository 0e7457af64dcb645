"""Estimators of the KL divergence at a point by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')


def test_kl_estimators_at_a_hand_computed_point():
  inputs = token_inputs.make_tokens([-1.0, -4.0], [0.0, 0.0], ref=-2.0)
  want = {
    'kl_k1': [1.0, -2.0],
    'kl_k2': [0.5, 2.0],
    'kl_k3': [np.exp(-1), np.exp(2) - 3],
  }
  for name, expected in want.items():
    value, _, metrics = token_inputs.loss_of(name, inputs)
    np.testing.assert_allclose(value[0], expected)
    np.testing.assert_allclose(metrics['kl'], (sum(expected), 2.0))
  value, _, _ = token_inputs.loss_of(
    'kl_k3', token_inputs.make_tokens([-9.0], [0.0])
  )
  assert float(value[0, 0]) == 10.0


def enumerated(name, logits, old, ref):
  """E over all words, as likely as π_old finds them, of a loss of one token."""
  pick = lambda x: jax.nn.log_softmax(x)  # noqa: E731
  zero = [0.0] * len(old)
  inputs = token_inputs.make_tokens([0.0] * len(old), zero)
  outputs, batch, credit, signals = inputs
  signals |= {'old_logp': pick(old)[None], 'ref_logp': pick(ref)[None]}

  def f(logits):
    out = outputs.replace(logp=pick(logits)[None])
    value, _, _ = token_inputs.loss_of(name, (out, batch, credit, signals))
    return jnp.sum(jnp.exp(pick(old)) * value[0])

  return jax.value_and_grad(f)(logits)


def test_a_weighted_k3_is_the_reverse_kl_whoever_sampled():
  """Every word of a tiny vocabulary: its mean, and the mean of its gradient."""
  r = np.random.default_rng(0)
  logits, old, ref = (jnp.asarray(r.normal(size=5)) for _ in range(3))

  def kl(logits):
    p, q = jax.nn.log_softmax(logits), jax.nn.log_softmax(ref)
    return jnp.sum(jnp.exp(p) * (p - q))

  want = jax.value_and_grad(kl)(logits)
  got = enumerated('kl_k3_weighted', logits, old, ref)
  np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
  np.testing.assert_allclose(got[1], want[1], rtol=1e-10)
  # Without the weight it is not, even where the policy itself has sampled.
  for start in (old, logits):
    _, slope = enumerated('kl_k3', logits, start, ref)
    assert np.max(np.abs(slope - want[1])) > 0.05


def test_of_an_equal_reference_there_is_no_loss():
  logits = jnp.array([0.3, -1.0, 2.0])
  value, slope = enumerated('kl_k3_weighted', logits, jnp.zeros(3), logits)
  assert float(value) == 0
  assert not np.any(slope)
