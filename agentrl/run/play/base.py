"""Sampler of a run: what every kind of environment is played by."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from agentrl.judge.panel import Judgement
from agentrl.learner.algorithm import Algorithm
from agentrl.rollout.record import Record
from agentrl.rollout.tickets import Collect
from agentrl.service.base import Service
from agentrl.types import Attempts, Batch, Metrics, PyTree

# Messages of a trajectory, each its tokens.
Script = list[list[int]]

# () -> the newest policy that there is, and its version, which may be traced
Newest = Callable[[], tuple[PyTree, Any]]


class EnvSampler(Protocol):
  """Plays the environment of a run for stages and evaluations."""

  def play(self, policy: PyTree, attempts: Attempts, key) -> Record:
    """Plays without rewards, for an evaluation."""

  def collect(
    self,
    policy: PyTree,
    attempts: Attempts,
    key,
    step,
    *,
    newest: Newest | None = None,
  ) -> tuple[Batch, Metrics]:
    """Returns the batch of an iteration, with rewards, and its metrics.

    Args:
      newest: policies that what is being played goes on with, as
        `staleness.swap` or a collector that gives 'newest_branches' says; None:
        one policy samples the batch
    """

  def demos(
    self, index: np.ndarray, scripts: Sequence[Script] | None = None
  ) -> Any:
    """Returns what `replay` takes for these training tasks, host arrays.

    Args:
      scripts: messages for each; None: the task's demonstration
    """

  def replay(self, demos: Any, key) -> Batch:
    """Returns rows of messages that are given, played at their tasks."""

  def taken(self) -> dict[str, float]:
    """Returns counts of what `play` has played since the last call, by name.

    Raises:
      NothingPlayedError: every episode was broken.
    """

  def verdicts(self, key: str) -> list[Judgement]:
    """Returns what judges said of a trajectory, by judge.item.trajectory_key.

    Nothing of one that is some iterations old.
    """

  def update_service_params(self, params: dict[str, PyTree]) -> None:
    """Takes the parameters of all roles, before any of the others plays."""

  def service(self, name: str) -> Service:
    """Returns the service of a name of c.service; KeyError: it has none."""


class Beside(NamedTuple):
  """Samplers that collect beside the updates of a stage, each in a thread."""

  samplers: Sequence[EnvSampler] = ()
  halt: Callable[[], None] = lambda: None  # what they play ends soon
  # Of jobs, in place of samplers: given the algorithm of the stage.
  collectors: Sequence[Callable[[Algorithm], Collect]] = ()
  end: Callable[[], None] = lambda: None  # the run has done all of its steps


ALONE = Beside()  # all is collected before its update
