"""Weights of prefix tokens: those of trajectories that count, nobody else's."""

import jax.numpy as jnp
import numpy as np

from agentrl.curate import prefix
from agentrl.loss import ppo
from agentrl.testing import batches
from agentrl.types import LossInputs, Outputs, Span
from tests.advantage import unscored


def given(batch, turns):
  """The batch whose first turns [B] were given."""
  rows = batch.rows
  first = np.asarray(turns)[np.maximum(rows.traj, 0)]
  said = rows.sampled & (rows.turn < first)
  rows = rows.replace(
    span=np.where(said, Span.PREFIX, rows.span),
    sampled=rows.sampled & ~said,
    weight=np.where(said, 0, rows.weight),
    logp=np.where(said, 0, rows.logp),
  )
  return batch.replace(rows=rows), said


def test_prefixes_of_what_counts_weigh_one():
  laid = batches.lay(batches.story(), padding=2)
  turns = np.arange(laid.batch.outcome.size) % 3
  batch, said = given(laid.batch, turns)
  batch = unscored.turns(batch, 2)
  got = prefix.train_prefix(batch)
  want = np.where(said & (batch.rows.traj != 2), 1, batch.rows.weight)
  assert (said & (batch.rows.traj == 2)).any()
  np.testing.assert_array_equal(got.rows.weight, want)
  assert want.sum() > batch.rows.weight.sum()


def test_losses_of_sampled_tokens_see_no_difference():
  laid = batches.lay(batches.story())
  batch, _ = given(laid.batch, np.ones(laid.batch.outcome.size, int))
  after = prefix.train_prefix(batch)
  for x in (batch, after):
    credit = batches.chain.zero(x)
    inputs = LossInputs(
      outputs=Outputs(), batch=x, credit=credit, signals={}, key=jnp.zeros(2)
    )
    np.testing.assert_array_equal(
      ppo.weight_of(inputs), np.where(x.rows.sampled, batch.rows.weight, 0)
    )
