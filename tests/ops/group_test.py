"""Moments of groups against NumPy's in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops
from tests import errors

pytestmark = pytest.mark.usefixtures('float64')


X = np.random.default_rng(0).normal(size=7)
GROUP = np.array([0, 0, 0, 2, 2, 5, 0])


@pytest.mark.parametrize('ddof', [0, 1])
def test_moments(ddof):
  mask = np.arange(7) != 1
  m = ops.group_moments(
    jnp.asarray(X), jnp.asarray(GROUP), mask=jnp.asarray(mask), ddof=ddof
  )
  for g in (0, 2):
    mine = X[(g == GROUP) & mask]
    for i in np.flatnonzero(g == GROUP):
      want = len(mine), mine.mean(), mine.var(ddof=ddof)
      np.testing.assert_allclose([x[i] for x in m[:3]], want, rtol=1e-12)
      ends = m.low[i], m.high[i]
      np.testing.assert_array_equal(ends, (mine.min(), mine.max()))
  np.testing.assert_array_equal(m.live, GROUP != 5)


def test_a_lone_member_is_zero_or_raw():
  x, group = jnp.array([3.0]), jnp.array([0])
  assert not ops.group_moments(x, group).live[0]
  m = ops.group_moments(x, group, singleton='raw')
  assert (float(m.mean[0]), float(m.var[0])) == (0, 1)
  assert m.live[0]
  with errors.raises(ValueError, 'singleton one'):
    ops.group_moments(x, group, singleton='one')


def test_equal_values_have_their_value_for_a_mean():
  x = jnp.full(7, 0.1, jnp.float32)
  m = ops.group_moments(x, jnp.asarray(GROUP))
  assert not np.any(ops.less_mean(x, m)[:5])


def test_comparisons_with_the_group():
  m = ops.group_moments(jnp.asarray(X), jnp.asarray(GROUP))
  mine = X[GROUP == 0]
  others = [X[0] - np.delete(mine, 0).mean(), (X[0] - mine.mean())]
  got = ops.less_others(X, m)[0], ops.less_mean(X, m)[0]
  np.testing.assert_allclose(got, others, rtol=1e-12)
  z = (X[0] - mine.mean()) / (mine.std(ddof=1) + 0.1)
  np.testing.assert_allclose(ops.zscore(X, m, eps=0.1)[0], z, rtol=1e-12)
  share = (X[0] - mine.min()) / (mine.max() - mine.min())
  np.testing.assert_allclose(ops.min_max(X, m)[0], share, rtol=1e-12)
  w = (X[0] - mine.mean()) / np.sqrt(mine.var(ddof=1) + 1e-8)
  np.testing.assert_allclose(ops.white(X, m)[0], w, rtol=1e-12)


@pytest.mark.parametrize('unit', ['trajectory', 'turn', 'token', 'first_turn'])
def test_every_unit_weighs_one(unit):
  """Two trajectories of 2 and 1 turns, with 3, 2 and 4 tokens."""
  size = jnp.array([[3.0, 2.0], [4.0, 0.0]])
  zero, node = jnp.zeros((2, 2), jnp.int32), jnp.arange(4).reshape(2, 2)
  got = ops.unit_weights(unit, zero, node.astype(jnp.int32), size, size) * size
  want = {
    'trajectory': [[3 / 5, 2 / 5], [1, 0]],
    'turn': [[1, 1], [1, 0]],
    'token': [[3, 2], [4, 0]],
    'first_turn': [[1, 0], [1, 0]],
  }
  np.testing.assert_allclose(got, want[unit])
