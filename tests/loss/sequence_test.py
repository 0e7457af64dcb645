"""Losses on the ratio of a sequence."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests import batches
from tests.loss import ratio_inputs

pytestmark = pytest.mark.usefixtures('float64')


def test_last_turn_of_ppo_suffix_is_ppo_of_its_one_token():
  _, (outputs, batch, credit, signals) = ratio_inputs.make_constant_inputs()
  rows = batch.rows
  batch = batch.replace(
    rows=rows.replace(
      turn=jnp.where(rows.sampled, jnp.cumsum(rows.sampled, 1) - 1, -1).astype(
        jnp.int32
      )
    )
  )
  more = batch.turns.valid.shape[0], rows.turn.shape[1]
  turns = batch.turns.replace(valid=jnp.ones(more, bool))
  batch = batch.replace(turns=turns)
  inputs = (outputs, batch, credit, signals)
  value, _, metrics = batches.loss('ppo_suffix', inputs, far=0.0)
  want, weight, _ = batches.loss('ppo', inputs)
  np.testing.assert_allclose(value * weight, want * weight, atol=1e-12)
  assert float(metrics['suffix'][0]) == float(weight.sum())


def test_golden_sequence_ratio():
  """Log-ratios .1, -.2, .4 have the ratio exp(.1)."""
  _, (outputs, batch, credit, signals) = ratio_inputs.make_constant_inputs()
  where = jnp.zeros_like(outputs.logp).at[0, 2:5].set(1)
  rows = batch.rows.replace(
    traj=jnp.where(where > 0, 0, -1).astype(jnp.int32),
    turn=jnp.where(where > 0, 0, -1).astype(jnp.int32),
    sampled=where > 0,
  )
  gaps = jnp.zeros_like(where).at[0, 2:5].set(jnp.array([0.1, -0.2, 0.4]))
  logp = signals['old_logp'] + gaps
  credit = credit.replace(weight=where, token=where)
  inputs = (outputs.replace(logp=logp), batch.replace(rows=rows), credit)
  value, _, _ = batches.loss('gspo', (*inputs, signals), clip_high=1.0)
  np.testing.assert_allclose(value[0, 2:5], -1.105171, rtol=1e-6)
