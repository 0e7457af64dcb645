"""Losses over all rows and on changed ratios, by hand and by differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.loss import covariance
from tests.loss import changed_ratios

pytestmark = pytest.mark.usefixtures('float64')

KEY = 3


def _covs(tokens):
  used = [x for x in tokens if x['w'] > 0]
  a = np.mean([x['a'] for x in used])
  logp = np.mean([x['logp'] for x in used])
  return {x['at']: (x['a'] - a) * (x['logp'] - logp) for x in used}


@pytest.mark.parametrize('variant', changed_ratios.VARIANTS)
def test_kl_cov_is_the_equation(variant):
  inputs, cases = changed_ratios.compiled_cases(variant)
  value, weight, grad = cases['kl_cov']
  tokens = changed_ratios.trained_tokens(inputs)
  covs = _covs(tokens)
  count = max(int(0.1 * len(covs)), 1)
  assert count > 2
  held = sorted(covs, key=covs.get, reverse=True)[:count]
  for x in tokens:
    at, log_rho = x['at'], x['log_rho']
    more = 0.7 * (at in held)
    rho = np.exp(log_rho)
    np.testing.assert_allclose(
      value[at], -x['a'] * rho + more * abs(log_rho), rtol=1e-10
    )
    np.testing.assert_allclose(
      grad[at], x['w'] * (-x['a'] * rho + more * np.sign(log_rho)), rtol=1e-10
    )
    assert weight[at] == x['w']


@pytest.mark.parametrize('variant', changed_ratios.VARIANTS)
def test_clip_cov_spares_that_many_of_the_right_ones(variant):
  inputs, cases = changed_ratios.compiled_cases(variant)
  value, weight, grad = cases['clip_cov']
  tokens = changed_ratios.trained_tokens(inputs)
  covs = _covs(tokens)
  spared = 0
  for x in tokens:
    at, a = x['at'], x['a']
    assert weight[at] == x['w']
    if x['w'] > 0 and value[at] == 0:
      spared += 1
      assert 0.2 < covs[at] < 4.0
      assert changed_ratios.slope(x, a, high=0.3) != 0
      assert grad[at] == 0
    else:
      np.testing.assert_allclose(
        value[at], changed_ratios.ppo(x, a, high=0.3), rtol=1e-10
      )
      np.testing.assert_allclose(
        grad[at], x['w'] * changed_ratios.slope(x, a, high=0.3), rtol=1e-10
      )
  near = [
    x
    for x in tokens
    if x['w'] > 0
    and 0.2 < covs[x['at']] < 4.0
    and changed_ratios.slope(x, x['a'], high=0.3) != 0
  ]
  assert spared == int(0.1 * len(covs)) < len(near)


def test_another_key_spares_others():
  inputs, cases = changed_ratios.compiled_cases('turn')
  used = np.asarray(inputs[1].rows.sampled & (inputs[2].weight > 0))
  one, two = (used & (cases[c][0] == 0) for c in ('clip_cov', 'another_key'))
  assert one.sum() == two.sum() > 0
  assert np.any(one != two)


def test_nobody_is_spared_where_no_covariance_is_near():
  _, cases = changed_ratios.compiled_cases('turn')
  for x, y in zip(cases['far'], cases['ppo'], strict=True):
    np.testing.assert_array_equal(x, y)


def test_covariance_is_not_differentiated():
  a, w = jnp.array([[1.0, -2.0, 3.0]]), jnp.ones((1, 3))
  f = lambda x: jnp.sum(covariance.covariance(a, x, w) ** 2)  # noqa: E731
  x = jnp.array([[-1.0, -0.3, -2.0]])
  assert float(f(x)) > 0
  assert not np.any(jax.grad(f)(x))
