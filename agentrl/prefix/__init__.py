"""Prefixes: how much of a trajectory attempts are given to begin with."""

from agentrl.prefix import lengths  # noqa: F401  registers its pieces
