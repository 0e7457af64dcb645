"""Credit assignment: the advantage of turns and tokens as chains of links."""

from agentrl.advantage import (  # noqa: F401  register their pieces
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
  novelty,
  returns,
  reweight,
  state_graph,
  state_groups,
  step_labels,
  tree,
)
