"""Rewards: what a turn or trajectory earned."""

from agentrl.reward import (  # noqa: F401  register their pieces
  calibration,
  composition,
  dialogue,
  gated,
  length,
  potential,
  price,
  proposals,
  terms,
  tools,
)
