"""Collecting: when to sample again."""

from agentrl.collect import branch, once  # noqa: F401  registers its pieces
