"""Advantages of prefix tokens, against a plain sort of their entropies."""

import jax
import numpy as np
import pytest

from agentrl.advantage import prefix
from agentrl.testing import batches
from agentrl.types import Credit, LinkInputs
from tests.curate.prefix_test import given


def case(turns, seed=0):
  laid = batches.lay(batches.story(seed), padding=2)
  b = laid.batch.outcome.size
  batch, said = given(laid.batch, np.resize(turns, b))
  weight = np.where(said, 1.0, batch.rows.weight)
  weight = np.where(batch.rows.traj == 3, 0, weight)  # was curated away
  r = np.random.default_rng(1)
  turn = r.normal(size=batch.turns.valid.shape)
  token = r.normal(size=said.shape)
  credit = Credit(turn, token, weight, {})
  entropy = r.uniform(size=said.shape)
  return batch, credit, entropy, said & (batch.rows.traj != 3)


@pytest.mark.parametrize('share', [0.2, 0.5, 1.0])
@pytest.mark.parametrize('turns', [[0], [1, 0, 2], [9]])
def test_the_most_uncertain_prefix_tokens_keep_their_advantage(turns, share):
  with jax.enable_x64(True):
    batch, credit, entropy, there = case(turns)
    signals = {'old_entropy': entropy}
    x = LinkInputs(batch=batch, credit=credit, signals=signals)
    got, metrics = prefix.uncertain_prefix(x, share=share)
  rows, want = batch.rows, np.zeros(there.shape)
  places = list(zip(*np.nonzero(there), strict=True))
  count = -(-len(places) * round(share * 10) // 10)
  kept = sorted(places, key=lambda x: -entropy[x])[:count]
  unweighed = (rows.traj == 3) & (rows.span == 6)
  for n, t in np.ndindex(*there.shape):
    i, k = rows.traj[n, t], rows.turn[n, t]
    own = rows.sampled[n, t] or unweighed[n, t] or (n, t) in kept
    if i >= 0 and own:
      want[n, t] = credit.turn[i, k] + credit.token[n, t]
  np.testing.assert_allclose(got.token, want, atol=1e-12)
  assert not np.any(got.turn)
  assert tuple(map(float, metrics['uncertain'])) == (len(kept), len(places))
  if turns != [0]:
    assert 0 < len(kept) <= len(places)
