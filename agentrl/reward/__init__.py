"""Rewards: what a turn or trajectory earned."""

from agentrl.reward import terms  # noqa: F401  registers its pieces
