"""Tasks of environments inside jit as a batch."""

import numpy as np

from agentrl.env.jit.base import SolvedTask


def stack(solved: list[SolvedTask]) -> dict[str, np.ndarray]:
  """Stacks tasks: each array gains a leading axis [B, ...]."""
  return {
    name: np.stack([s.task[name] for s in solved]) for name in solved[0].task
  }
