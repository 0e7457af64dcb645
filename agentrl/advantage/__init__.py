"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  baselines,
  chain,
  correct,
  entropy,
  filter,
  gae,
  gated,
  hierarchical,
  judged,
  normalize,
  placebo,
  returns,
  states,
  statistics,
  tree,
  weights,
)

__all__ = [
  'baselines',
  'chain',
  'correct',
  'entropy',
  'filter',
  'gae',
  'gated',
  'hierarchical',
  'judged',
  'normalize',
  'placebo',
  'returns',
  'states',
  'statistics',
  'tree',
  'weights',
]
