"""Losses on changed ratios, by hand and by differences."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.loss import ratio
from tests.loss import changed_ratios

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize('variant', changed_ratios.VARIANTS)
def test_balanced_is_ppo_whose_slope_stays_above(variant):
  inputs, cases = changed_ratios.compiled_cases(variant)
  value, _, grad = cases['balanced']
  above = 0
  for x in changed_ratios.trained_tokens(inputs):
    at, a = x['at'], x['a']
    np.testing.assert_allclose(
      value[at], changed_ratios.ppo(x, a, 0.1, 0.15), rtol=1e-10
    )
    slope = changed_ratios.slope(x, a, 0.1, 0.15)
    if a > 0 and np.exp(x['log_rho']) > 1.15:
      above += 1
      assert slope == 0
      slope = -a * 1.15
    np.testing.assert_allclose(grad[at], x['w'] * slope, rtol=1e-10)
  assert above > 3


@pytest.mark.parametrize('variant', changed_ratios.VARIANTS)
def test_future_is_the_equation(variant):
  """Over whole trajectories, in whatever rows they stand."""
  inputs, cases = changed_ratios.compiled_cases(variant)
  value, _, grad = cases['future']
  tokens = sorted(
    changed_ratios.trained_tokens(inputs), key=lambda x: x['order']
  )
  for i, x in enumerate(tokens):
    same = [y for y in tokens[i + 1 :] if y['order'][0] == x['order'][0]]
    later = sum(0.8 ** (j + 1) * y['log_rho'] for j, y in enumerate(same))
    x['omega'] = min(max(np.exp(later), 0.7), 1.3)
  used = [x['omega'] for x in tokens if x['w'] > 0]
  mean, std = np.mean(used), np.std(used, ddof=1)
  assert std > 0.1
  for x in tokens:
    z = (x['omega'] - mean) / std if x['w'] > 0 else 0
    a = x['a'] * (1 + 0.4 * z)
    np.testing.assert_allclose(
      value[x['at']], changed_ratios.ppo(x, a, high=0.3), rtol=1e-9
    )
    np.testing.assert_allclose(
      grad[x['at']], x['w'] * changed_ratios.slope(x, a, high=0.3), rtol=1e-9
    )


def test_future_begins_as_ppo():
  _, cases = changed_ratios.compiled_cases('turn')
  for x, y in zip(cases['future_begins'], cases['ppo_begins'], strict=True):
    np.testing.assert_array_equal(x, y)


def test_zscore_of_equal_values_is_zero():
  x, w = jnp.full((2, 3), 0.1), jnp.array([[1.0, 1, 0], [1, 0, 0]])
  assert not np.any(ratio.zscore(x, w))
  assert not np.any(ratio.zscore(x, 0 * w))
