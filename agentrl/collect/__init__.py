"""Collecting: when to sample again."""

from agentrl.collect import once  # noqa: F401  registers its pieces
