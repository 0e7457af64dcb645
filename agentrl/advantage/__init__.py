"""How much credit each turn and token gets: sums of chains of small links."""

from agentrl.advantage import (
  baselines,
  chain,
  controls,
  entropy,
  gae,
  group_stats,
  hierarchical,
  importance,
  infopo,
  masking,
  normalize,
  returns,
  reweight,
  state_groups,
  step_labels,
  tree,
)

__all__ = [
  'baselines',
  'chain',
  'controls',
  'entropy',
  'gae',
  'group_stats',
  'hierarchical',
  'importance',
  'infopo',
  'masking',
  'normalize',
  'returns',
  'reweight',
  'state_groups',
  'step_labels',
  'tree',
]
