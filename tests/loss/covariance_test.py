"""Losses over all rows and on changed ratios, by hand and by differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry, segment
from agentrl.loss import covariance, ratio
from agentrl.types import Credit, Outputs
from tests import batches

STORY = batches.story(seed=2, groups=2, members=3)
KEY = 3
HP = {'clip_low': 0.2, 'clip_high': 0.3}
COV = HP | {'fraction': 0.1, 'least': 0.2, 'most': 4.0}
# case -> loss, hyper-parameters, key
CASES = {
  'ppo': ('ppo', HP, 0),
  'clip_cov': ('clip_cov', COV, 3),
  'another_key': ('clip_cov', COV, 4),
  'far': ('clip_cov', COV | {'least': 1e3, 'most': 1e4}, 3),
  'kl_cov': ('kl_cov', {'fraction': 0.1, 'coef': 0.7}, 0),
  'balanced': ('ppo_balanced', {'clip_low': 0.1, 'clip_high': 0.15}, 0),
  'future': (
    'ppo_future', HP | {'coef': 0.4, 'gamma': 0.8, 'future_clip': 0.3}, 0),
  'future_begins': ('ppo_future', HP, 0),
  'ppo_begins': ('ppo', HP, 0),
}  # fmt: skip
VARIANTS = ('turn', batches.EXPLICIT)


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _inputs(layout='packed', seed=0):
  """Outputs, batch, credit, signals; a token's values do not depend on rows."""
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, layout, padding=1))
  rows, told = laid.batch.rows, laid.tokens
  # The `prm` and `value` noise of the story stand in for credit and weight.
  sampled = rows.sampled
  weight = jnp.where(told['value'] > -0.7, 0.5 + (told['prm'] > 0), 0.0)
  credit = Credit(
    turn=jnp.full(laid.batch.turns.valid.shape, jnp.nan),  # not to be read
    token=jnp.where(sampled, 2 * told['prm'], 0),
    weight=weight,
    target={},
  )
  return Outputs(logp=told['logp']), laid.batch, credit, laid.signals


def _every(inputs):
  """{case: (value, weight, gradient of their sum)}."""
  outputs, batch, credit, signals = inputs

  def f(logp, name, hp, key, signals):
    loss = registry.bind('loss', name, hp)
    key = jax.random.key(key)
    value, weight, _ = loss(Outputs(logp), batch, credit, signals, key)
    return jnp.sum(value * weight), (value, weight)

  out = {}
  for case, args in CASES.items():
    old = {'old_logp': outputs.logp} if 'begins' in case else {}
    (_, told), grad = jax.value_and_grad(f, has_aux=True)(
      outputs.logp, *args, signals | old
    )
    out[case] = *told, grad
  return out


@functools.cache
def found(variant):
  """Every case on a row per turn, or packed on an explicit mesh."""
  if variant == 'turn':
    inputs = _inputs('turn')
    return inputs, jax.jit(_every)(inputs)
  inputs = _inputs('packed')
  return inputs, batches.on_a_mesh(_every, (inputs,), inputs[0].logp.shape)


def _tokens(inputs):
  """Trained tokens in row order, and in the order of trajectory and time."""
  outputs, batch, credit, signals = jax.tree.map(np.asarray, inputs)
  rows, out = batch.rows, []
  for n, t in zip(*np.nonzero(rows.sampled), strict=True):
    out.append({
      'at': (n, t),
      'order': (rows.traj[n, t], rows.turn[n, t], t),
      'a': credit.token[n, t],
      'w': credit.weight[n, t],
      'logp': outputs.logp[n, t],
      'log_rho': outputs.logp[n, t] - signals['old_logp'][n, t],
    })  # fmt: skip
  return out


def _covs(tokens):
  used = [x for x in tokens if x['w'] > 0]
  a = np.mean([x['a'] for x in used])
  logp = np.mean([x['logp'] for x in used])
  return {x['at']: (x['a'] - a) * (x['logp'] - logp) for x in used}


def _ppo(x, a, low=0.2, high=0.2):
  rho = np.exp(x['log_rho'])
  return max(-a * rho, -a * min(max(rho, 1 - low), 1 + high))


def _slope(x, a, low=0.2, high=0.2):
  """d ppo / d log π: none where the clipped value is the larger one."""
  rho = np.exp(x['log_rho'])
  clipped = -a * min(max(rho, 1 - low), 1 + high) > -a * rho
  return 0.0 if clipped else -a * rho


@pytest.mark.parametrize('variant', VARIANTS)
def test_kl_cov_is_the_equation(variant):
  inputs, told = found(variant)
  value, weight, grad = told['kl_cov']
  tokens = _tokens(inputs)
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


@pytest.mark.parametrize('variant', VARIANTS)
def test_clip_cov_spares_that_many_of_the_right_ones(variant):
  inputs, told = found(variant)
  value, weight, grad = told['clip_cov']
  tokens = _tokens(inputs)
  covs = _covs(tokens)
  spared = 0
  for x in tokens:
    at, a = x['at'], x['a']
    assert weight[at] == x['w']
    if x['w'] > 0 and value[at] == 0:
      spared += 1
      assert 0.2 < covs[at] < 4.0
      assert _slope(x, a, high=0.3) != 0
      assert grad[at] == 0
    else:
      np.testing.assert_allclose(value[at], _ppo(x, a, high=0.3), rtol=1e-10)
      np.testing.assert_allclose(
        grad[at], x['w'] * _slope(x, a, high=0.3), rtol=1e-10
      )
  near = [x for x in tokens if x['w'] > 0 and 0.2 < covs[x['at']] < 4.0
          and _slope(x, x['a'], high=0.3) != 0]  # fmt: skip
  assert spared == int(0.1 * len(covs)) < len(near)


def test_another_key_spares_others():
  inputs, told = found('turn')
  used = np.asarray(inputs[1].rows.sampled & (inputs[2].weight > 0))
  one, two = (used & (told[c][0] == 0) for c in ('clip_cov', 'another_key'))
  assert one.sum() == two.sum() > 0
  assert np.any(one != two)


def test_nobody_is_spared_where_no_covariance_is_near():
  _, told = found('turn')
  for x, y in zip(told['far'], told['ppo'], strict=True):
    np.testing.assert_array_equal(x, y)


def test_covariance_by_hand():
  """Means over what weighs, of 4 and of -2: each token is less by both."""
  a = jnp.array([[3.0, 5.0, 4.0], [99.0, 4.0, -7.0]])
  logp = jnp.array([[-1.0, -3.5, -2.0], [99.0, -1.5, -7.0]])
  weight = jnp.array([[0.5, 1.0, 2.0], [0.0, 1.0, 0.0]])
  cov = covariance.covariance(a, logp, weight)
  np.testing.assert_allclose(cov, [[-1, -1.5, 0], [0, 0, 0]], atol=1e-15)


def test_covariance_is_not_differentiated():
  a, w = jnp.array([[1.0, -2.0, 3.0]]), jnp.ones((1, 3))
  f = lambda x: jnp.sum(covariance.covariance(a, x, w) ** 2)  # noqa: E731
  x = jnp.array([[-1.0, -0.3, -2.0]])
  assert float(f(x)) > 0
  assert not np.any(jax.grad(f)(x))


@pytest.mark.parametrize('variant', VARIANTS)
def test_balanced_is_ppo_whose_slope_stays_above(variant):
  inputs, told = found(variant)
  value, _, grad = told['balanced']
  above = 0
  for x in _tokens(inputs):
    at, a = x['at'], x['a']
    np.testing.assert_allclose(value[at], _ppo(x, a, 0.1, 0.15), rtol=1e-10)
    slope = _slope(x, a, 0.1, 0.15)
    if a > 0 and np.exp(x['log_rho']) > 1.15:
      above += 1
      assert slope == 0
      slope = -a * 1.15
    np.testing.assert_allclose(grad[at], x['w'] * slope, rtol=1e-10)
  assert above > 3


@pytest.mark.parametrize('variant', VARIANTS)
def test_future_is_the_equation(variant):
  """Over whole trajectories, in whatever rows they stand."""
  inputs, told = found(variant)
  value, _, grad = told['future']
  tokens = sorted(_tokens(inputs), key=lambda x: x['order'])
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
    np.testing.assert_allclose(value[x['at']], _ppo(x, a, high=0.3), rtol=1e-9)
    np.testing.assert_allclose(
      grad[x['at']], x['w'] * _slope(x, a, high=0.3), rtol=1e-9
    )


def test_future_begins_as_ppo():
  _, told = found('turn')
  for x, y in zip(told['future_begins'], told['ppo_begins'], strict=True):
    np.testing.assert_array_equal(x, y)


def test_zscore_of_equal_values_is_zero():
  x, w = jnp.full((2, 3), 0.1), jnp.array([[1.0, 1, 0], [1, 0, 0]])
  assert not np.any(ratio.zscore(x, w))
  assert not np.any(ratio.zscore(x, 0 * w))


def test_top():
  x = jnp.array([[3.0, 1.0, 3.0], [9.0, 2.0, 3.0]])
  mask = jnp.array([[True, True, True], [False, True, True]])
  got = segment.top(x, mask, jnp.int32(2))
  np.testing.assert_array_equal(got, [[True, False, True], [False] * 3])
  assert int(segment.top(x, mask, jnp.int32(99)).sum()) == 5
