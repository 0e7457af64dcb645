"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  chain,
  filter,
  gae,
  hierarchical,
  normalize,
  returns,
  statistics,
)

__all__ = [
  'chain',
  'filter',
  'gae',
  'hierarchical',
  'normalize',
  'returns',
  'statistics',
]
