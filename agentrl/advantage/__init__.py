"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  chain,
  gae,
  gated,
  judged,
  normalize,
  returns,
  states,
  statistics,
)

__all__ = [
  'chain',
  'gae',
  'gated',
  'judged',
  'normalize',
  'returns',
  'states',
  'statistics',
]
