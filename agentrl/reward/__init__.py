"""Rewards: what a turn or trajectory earned."""

from agentrl.reward import (
  length,  # noqa: F401  register their pieces
  terms,  # noqa: F401  register their pieces
)
