"""Mixture: how many trajectories of each source a supervised step reads.

Source s has the share w_s(t) / sum_j w_j(t) of the B trajectories of step t.
Counts follow the shares with what was given before them in mind:

  e_s(t) = B w_s(t) / sum_j w_j(t) + e_s(t - 1) - n_s(t - 1)
  n(t)   = B times one trajectory to the source of largest e_s(t) - n_s(t)

so that they are whole, add up to B, and no source is ever a trajectory or more
ahead of its share of all steps so far; with S sources none is S - 1 or more
behind. Where those shares come to whole numbers they are met exactly.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from agentrl.dataset import jit_tasks
from agentrl.dataset.trajectory import StoredTrajectory
from agentrl.dataset.trajectory_store import HEAD, facts


class TrajectorySource(Protocol):
  """Trajectories in an order, by place: a store, or a list in memory.

  heads: [n] trajectory_store.HEAD
  """

  heads: np.ndarray

  def take(self, indices: np.ndarray) -> list[StoredTrajectory]:
    """Those of the places, in the order of the places."""


class Listed:
  """TrajectorySource in memory."""

  def __init__(self, trajectories: Sequence[StoredTrajectory]):
    self._trajectories = list(trajectories)
    self.heads = np.array([facts(x) for x in self._trajectories], HEAD)

  def take(self, indices: np.ndarray) -> list[StoredTrajectory]:
    return [self._trajectories[i] for i in np.asarray(indices).tolist()]


def counted(xs: Sequence[StoredTrajectory]) -> list[StoredTrajectory]:
  """Trajectories that count (agentrl/ops/counting.py): all turns are scored."""
  return [x for x in xs if x.turns and all(t.scored for t in x.turns)]


def counts(weights: np.ndarray, batch: int) -> np.ndarray:
  """Trajectories of each source at each step: [T, S] i64, rows sum to batch.

  Args:
    weights: [T, S], at least 0, one of each step above
  Raises:
    ValueError: the weights of a step sum to nothing.
  """
  weights = np.asarray(weights, np.float64)
  total = weights.sum(axis=1)
  if np.any(empty := total <= 0):
    raise ValueError(
      f'the weights of all sources are 0 at step {int(np.argmax(empty))} of'
      ' the stage; give one of them a weight above 0'
    )
  steps, sources = weights.shape
  out = np.zeros((steps, sources), np.int64)
  behind = np.zeros(sources)
  for t in range(steps):
    behind += batch * weights[t] / total[t]
    # Every source gets these: in the end none is `sources` behind.
    out[t] = np.maximum(np.ceil(behind) - sources, 0)
    behind -= out[t]
    for _ in range(batch - int(out[t].sum())):
      most = int(np.argmax(behind))
      out[t, most] += 1
      behind[most] -= 1
  return out


def places(
  counts: np.ndarray, sizes: Sequence[int], seed: int, step: int
) -> list[np.ndarray]:
  """Which trajectories of each source a step reads, an array a source.

  Each source is read in its own endless order of epochs, from where the steps
  before have left off (jit_tasks.epoch_positions).

  Args:
    counts: [T, S], of `counts`
    sizes: trajectories that each source has
    step: of the stage
  """
  before = counts[:step].sum(axis=0)
  return [
    jit_tasks.epoch_positions(n, seed, int(first) + np.arange(count))
    if count
    else np.empty(0, np.int64)
    for n, first, count in zip(sizes, before, counts[step], strict=True)
  ]
