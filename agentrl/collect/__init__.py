"""Collectors: when to sample again, and which samples to keep."""

from agentrl.collect import (  # noqa: F401  register their pieces
  branch,
  branch_mixed,
  branch_tokens,
  candidates,
  dynamic,
  greedy,
  once,
  partial,
  retry,
  tree_search,
  value_sampling,
)
