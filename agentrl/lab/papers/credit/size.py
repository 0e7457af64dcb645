"""Sizes of the credit study, which are flags: light, for a quick --help."""

from typing import NamedTuple

from agentrl import domain

# The column that is the truth: the exact advantage, or the solver's progress.
TRUTH = {'bifurcation': 'truth', 'sokoban': 'progress'}


class CreditSize(NamedTuple):
  """Sizes of the sampled data."""

  seeds: domain.Count = 8
  tasks: domain.Count = 4  # of a batch
  group: domain.Count = 8
  warm: domain.Count0 = 60  # batches that signals learn from
  rate: domain.Rate = 3e-3  # of signals' networks; the policy stands still
  fit: domain.Count0 = 120  # supervised steps to random play
