"""Batches some of whose turns a judge did not score."""

import numpy as np


def turns(batch, *places):
  """The batch in which the turns at these places of [B, K] have no score."""
  scored = np.array(batch.turns.scored)
  for place in places:
    scored[place] = False
  return batch.replace(turns=batch.turns.replace(scored=scored))
