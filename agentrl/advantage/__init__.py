"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  baselines,
  chain,
  gae,
  normalize,
  returns,
  statistics,
)

__all__ = [
  'baselines',
  'chain',
  'gae',
  'normalize',
  'returns',
  'statistics',
]
