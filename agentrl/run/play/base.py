"""Sampler of a run: what every kind of environment is played by."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from agentrl.judge.panel import Judgement
from agentrl.rollout.record import Record
from agentrl.types import Attempts, Batch, Metrics, PyTree

# Messages of a trajectory, each its tokens.
Script = list[list[int]]


class EvalPlayer(Protocol):
  """Plays held-out tasks."""

  def play(self, policy: PyTree, attempts: Attempts, key) -> Record:
    """Plays without rewards, for an evaluation."""

  def eval_counts(self) -> dict[str, float]:
    """Counts of what was played since the last call, by name."""

  def unplayed(self) -> str:
    """Says that nothing was played since the last call; '': something was."""

  def update_service_params(self, params: dict[str, PyTree]) -> None:
    """Takes the parameters of all roles, before any of the others plays."""


class EnvSampler(EvalPlayer, Protocol):
  """Plays the environment of a run for stages and evaluations."""

  def demo_batch(self, index: np.ndarray) -> Any:
    """Returns what `demonstrate` takes for these training tasks."""

  def demonstrate(self, demos: Any, key) -> Batch:
    """Returns rows of solutions."""

  def replay(self, index: np.ndarray, scripts: Sequence[Script], key) -> Batch:
    """Returns rows of these messages, played at these training tasks."""

  def collect(self, policy: PyTree, attempts: Attempts, key, step) -> Batch:
    """Returns the batch of an iteration, with rewards."""

  def observe(self, batch: Batch) -> Metrics:
    """Measures what was collected."""

  def verdicts(self, key: str) -> list[Judgement]:
    """What judges said of a trajectory, by judge.item.trajectory_key."""
