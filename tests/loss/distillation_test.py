"""The distillation term is the divergence that the learner found."""

import jax.numpy as jnp
import numpy as np

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from agentrl.domain import Real
from tests.loss import token_inputs


def test_it_is_the_divergence_at_sampled_tokens():
  outputs, batch, credit, signals = token_inputs.make_tokens(
    [-1.0, -3.0, -2.0], [5.0, 5.0, 5.0]
  )
  outputs = outputs.replace(divergence=jnp.array([[0.5, 2.0, 8.0]]))
  rows = batch.rows.replace(sampled=jnp.array([[True, True, False]]))
  credit = credit.replace(weight=jnp.array([[0.5, 2.0, 1.0]]))
  inputs = outputs, batch.replace(rows=rows), credit, signals
  value, weight, metrics = token_inputs.loss_of('distillation', inputs)
  np.testing.assert_array_equal(value, [[0.5, 2.0, 8.0]])
  np.testing.assert_array_equal(weight, [[0.5, 2.0, 0.0]])
  assert tuple(map(float, metrics['divergence'])) == (4.25, 2.5)


def test_beta_chooses_a_program():
  """So that it follows no schedule."""
  beta = registry.get('loss', 'distillation').domains['beta']
  assert isinstance(beta, Real)
  assert beta.compiled
