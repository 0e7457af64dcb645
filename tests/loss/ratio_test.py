"""Losses on changed ratios, by hand and by differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.loss import ratio
from agentrl.types import Outputs
from tests import batches
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


@pytest.mark.parametrize('case', ['future_begins', 'stale_begins'])
def test_it_begins_as_ppo(case):
  """Where every ratio is 1: age 0, or a policy that has not moved."""
  _, cases = changed_ratios.compiled_cases('turn')
  for x, y in zip(cases[case], cases['ppo_begins'], strict=True):
    np.testing.assert_array_equal(x, y)


def _widths(tokens, tail):
  """c of each token, written without arrays; the quantile is numpy's."""
  used = [abs(x['log_rho']) for x in tokens if x['w'] > 0]
  q = np.quantile(used, 1 - tail)
  return [
    1 / (1 + (abs(x['log_rho']) / q) ** 2) if abs(x['log_rho']) > q else 1.0
    for x in tokens
  ]


@pytest.mark.parametrize('variant', changed_ratios.VARIANTS)
def test_stale_tokens_have_a_narrower_clip(variant):
  """Each end by the sign of log ρ, as in the paper: one end is all that acts.

  Both values and slopes; some tokens stop that ppo lets go on.
  """
  inputs, cases = changed_ratios.compiled_cases(variant)
  value, _, grad = cases['stale']
  tokens, stopped = changed_ratios.trained_tokens(inputs), 0
  for x, c in zip(tokens, _widths(tokens, 0.4), strict=True):
    a, up = x['a'], x['log_rho'] > 0
    low, high = 0.8 * (1 if up else c), 5.0 * (c if up else 1)
    np.testing.assert_allclose(
      value[x['at']], changed_ratios.ppo(x, a, low, high), rtol=1e-10
    )
    slope = changed_ratios.slope(x, a, low, high)
    np.testing.assert_allclose(grad[x['at']], x['w'] * slope, rtol=1e-10)
    stopped += slope != changed_ratios.slope(x, a, 0.8, 5.0)
  assert stopped > 2


def test_stale_gradient_is_that_of_finite_differences():
  """With the widths held: they are not differentiated."""
  inputs = outputs, *rest = changed_ratios.make_inputs()
  log_rho = outputs.logp - rest[2]['old_logp']
  weight = np.asarray(jnp.where(rest[0].rows.sampled, rest[1].weight, 0))
  c = np.asarray(ratio.shrinkage(log_rho, weight > 0, 0.4))
  grad = token_slopes('ppo_stale', inputs, tail=0.4)
  way = np.random.default_rng(0).normal(size=grad.shape)

  def by_hand(h):
    rho, a = np.exp(log_rho + h * way), np.asarray(rest[1].token)
    near = np.clip(rho, 1 - 0.2 * c, 1 + 0.2 * c)
    return np.sum(weight * np.maximum(-a * rho, -a * near))

  want = (by_hand(1e-6) - by_hand(-1e-6)) / 2e-6
  assert abs(want) > 0.1
  np.testing.assert_allclose(np.sum(grad * way), want, rtol=1e-6)


def token_slopes(name, inputs, **hp):
  outputs, *rest = inputs

  def total(logp):
    value, weight, _ = batches.loss(name, (Outputs(logp), *rest), **hp)
    return jnp.sum(value * weight)

  return np.asarray(jax.grad(total)(outputs.logp))


@pytest.mark.parametrize('d', [[0.0, 0.0, 0.0], [0.1, -0.1, 0.1]])
def test_no_token_is_staler_than_others_that_are_as_far(d):
  d, used = jnp.array([d]), jnp.ones((1, 3), bool)
  np.testing.assert_array_equal(ratio.shrinkage(d, used, 0.1), 1)
  np.testing.assert_array_equal(ratio.shrinkage(d, ~used, 0.1), 1)


def test_only_tokens_that_train_say_what_is_stale():
  d = jnp.array([[0.1, 0.2, 0.3, 9.0]])
  used = jnp.array([[True, True, True, False]])
  got = ratio.shrinkage(d, used, 0.5)  # q = 0.2
  np.testing.assert_allclose(got[0, :3], [1, 1, 1 / (1 + 1.5**2)])


def test_zscore_of_equal_values_is_zero():
  x, w = jnp.full((2, 3), 0.1), jnp.array([[1.0, 1, 0], [1, 0, 0]])
  assert not np.any(ratio.zscore(x, w))
  assert not np.any(ratio.zscore(x, 0 * w))
