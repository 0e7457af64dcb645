"""Rewards: what a turn or trajectory earned."""

from agentrl.reward import (  # noqa: F401  register their pieces
  calibration,
  gated,
  length,
  potential,
  price,
  terms,
)
