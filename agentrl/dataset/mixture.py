"""Mixture: how many trajectories of each source a supervised step reads.

Source s has the share w_s(t) / sum_j w_j(t) of the B trajectories of step t.
Counts follow the shares and carry the remainder over:

  e_s(t) = B w_s(t) / sum_j w_j(t) + e_s(t - 1) - n_s(t - 1)
  n(t)   = B times one trajectory to the source of largest e_s(t) - n_s(t)

Counts are whole and add up to B. Over all steps so far no source is ever a
whole trajectory ahead of its share, nor S - 1 behind with S sources; shares
that are whole numbers are met exactly.
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
    """Reads the trajectories at these places, in their order."""


class Listed:
  """A TrajectorySource in memory."""

  def __init__(self, trajectories: Sequence[StoredTrajectory]):
    self._trajectories = list(trajectories)
    self.heads = np.array([facts(x) for x in self._trajectories], HEAD)

  def take(self, indices: np.ndarray) -> list[StoredTrajectory]:
    return [self._trajectories[i] for i in np.asarray(indices).tolist()]


def counted(xs: Sequence[StoredTrajectory]) -> list[StoredTrajectory]:
  """Keeps trajectories that count (ops/counting.py): every turn is scored."""
  return [x for x in xs if x.turns and all(t.scored for t in x.turns)]


def counts(weights: np.ndarray, batch: int) -> np.ndarray:
  """Returns trajectories per source and step: [T, S] i64, rows sum to batch.

  Args:
    weights: [T, S], at least 0, one of each step above
  Raises:
    ValueError: the weights of a step sum to nothing.
  """
  weights = np.asarray(weights, np.float64)
  total = weights.sum(axis=1)
  if np.any(empty := total <= 0):
    raise ValueError(
      'weights must have a source above 0 at every step of the stage, got 0'
      f' for all at step {int(np.argmax(empty))}'
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
  """Returns which trajectories a step reads, one array per source.

  Each source has its own endless order of epochs and resumes where the
  previous step stopped (jit_tasks.epoch_positions).

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
