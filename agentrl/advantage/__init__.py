"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  baselines,
  chain,
  correct,
  filter,
  gae,
  normalize,
  returns,
  statistics,
  weights,
)

__all__ = [
  'baselines',
  'chain',
  'correct',
  'filter',
  'gae',
  'normalize',
  'returns',
  'statistics',
  'weights',
]
