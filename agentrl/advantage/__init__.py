"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  chain,
  entropy,
  gae,
  normalize,
  returns,
  statistics,
  tree,
)

__all__ = [
  'chain',
  'entropy',
  'gae',
  'normalize',
  'returns',
  'statistics',
  'tree',
]
