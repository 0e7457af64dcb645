"""Levels of Sokoban as text."""

import numpy as np

from agentrl.env.jit.sokoban_levels import SYMBOLS
from agentrl.env.jit.sokoban_solver import SolverLevel


def as_text(level: SolverLevel) -> str:
  """Renders a level as `parse_level` reads it."""
  height, width = level.walls.shape
  at = np.arange(height * width).reshape(height, width) == level.player
  kind = np.where(level.walls, 0, np.where(level.boxes, 2, 1))
  kind = np.where(level.targets, np.where(level.boxes, 4, 3), kind)
  kind = np.where(at, np.where(level.targets, 6, 5), kind)
  return '\n'.join(''.join(SYMBOLS[k] for k in row) for row in kind)
