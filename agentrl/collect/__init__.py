"""Collecting: when to sample again, and what of it is kept."""

from agentrl.collect import (  # noqa: F401  register their pieces
  branch,
  dynamic,
  greedy,
  once,
)
