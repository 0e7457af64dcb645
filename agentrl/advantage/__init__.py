"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  chain,
  correct,
  gae,
  normalize,
  returns,
  statistics,
)

__all__ = [
  'chain',
  'correct',
  'gae',
  'normalize',
  'returns',
  'statistics',
]
