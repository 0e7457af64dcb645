"""The negative log-likelihood of every token that weighs, sampled or not."""

import jax.numpy as jnp
import numpy as np

import agentrl.loss  # noqa: F401  registers the losses
from tests.loss import token_inputs


def test_tokens_that_nobody_sampled_count_by_their_weight():
  outputs, batch, credit, signals = token_inputs.make_tokens(
    [-1.0, -3.0], [5.0, 5.0]
  )
  rows = batch.rows.replace(sampled=jnp.array([[True, False]]))
  credit = credit.replace(weight=jnp.array([[0.5, 2.0]]))
  inputs = outputs, batch.replace(rows=rows), credit, signals
  value, weight, metrics = token_inputs.loss_of('nll', inputs)
  np.testing.assert_array_equal(value, [[1.0, 3.0]])
  np.testing.assert_array_equal(weight, [[0.5, 2.0]])
  assert tuple(map(float, metrics['nll'])) == (6.5, 2.5)
