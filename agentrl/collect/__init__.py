"""Collectors: when to sample again, and which samples to keep."""

from agentrl.collect import (  # noqa: F401  register their pieces
  branch,
  dynamic,
  greedy,
  once,
  partial,
  retry,
  value_sampling,
)
