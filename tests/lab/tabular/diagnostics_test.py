"""Bias and noise of credit, as its agreement with the truth has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.lab.tabular import diagnostics
from agentrl.stats import credit_accuracy
from tests.lab.tabular import table_runs


@pytest.mark.parametrize('size', [1.0, 0.1])
def test_bias_and_noise_are_those_of_agreement(size):
  batch = jax.tree.map(jnp.asarray, table_runs.played('grpo').batch)
  credit = size * jax.random.normal(jax.random.key(5), batch.turns.valid.shape)
  credit += 3 * batch.turns.terms['truth']
  got = diagnostics.bias_and_noise(
    jax.jit(diagnostics.cell_sums)(credit, batch)
  )
  cell = np.asarray(batch.rows.tokens[:, 0]) * 3 + np.tile([0, 1, 2], 8)
  x, t = (
    np.asarray(y, np.float64).reshape(-1)
    for y in (credit, batch.turns.terms['truth'])
  )
  _, bias, noise = credit_accuracy.bias_and_noise(x, t, cell)
  np.testing.assert_allclose(got['credit bias'], bias, rtol=1e-4)
  np.testing.assert_allclose(got['credit noise'], noise, rtol=1e-4)
  assert size == 1 or (0 < bias < 1 and noise > 0)
