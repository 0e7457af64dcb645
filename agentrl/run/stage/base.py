"""Stage of a run, as the loop and the runner use it."""

from typing import Any, Protocol

from agentrl import loop
from agentrl.learner.algorithm import Algorithm
from agentrl.run.experiment import Experiment
from agentrl.types import Batch, TrainState


class Stage(loop.Sampler, Protocol):
  """Steps [start, end) of a run, which share one state and one counter.

  kind: 'sft' or 'rl'; several stages may be of one kind
  """

  name: str
  kind: str
  start: int
  end: int
  experiment: Experiment
  sampler: Any
  algorithm: Algorithm

  def open(self, step: int) -> None:
    """Reads what the stage is trained on, before the first step it does."""

  def begin(self, state: TrainState) -> TrainState:
    """Changes the state before the first step of the stage."""

  def update(self, alg: Algorithm, state: TrainState, batch: Batch):
    """learner.update; of all seeds where there are several."""
