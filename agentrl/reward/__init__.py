"""Rewards: what a turn or trajectory earned."""

from agentrl.reward import length, terms  # noqa: F401  register their pieces
