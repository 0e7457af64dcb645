"""Pair losses against loops in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')

Q = np.array([0.3, -0.2, 0.5, 0.3])
WEIGHT = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0.0]])


def test_pair_loss_and_accuracy():
  margins = [Q[0] - Q[1], Q[0] - Q[3], Q[2] - Q[1]]
  want = np.mean([np.log1p(np.exp(-x)) for x in margins])
  np.testing.assert_allclose(ops.pair_loss(Q, WEIGHT), want, rtol=1e-12)
  assert tuple(map(float, ops.pair_accuracy(Q, WEIGHT))) == (2.5, 3.0)


def test_no_pairs_have_no_loss():
  assert float(ops.pair_loss(Q, 0 * WEIGHT)) == 0
  assert not np.any(jax.grad(ops.pair_loss)(jnp.asarray(Q), 0 * WEIGHT))


def test_weights_of_another_shape_are_refused():
  with pytest.raises(AssertionError):
    ops.pair_loss(Q, WEIGHT[:2])
