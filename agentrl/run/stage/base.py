"""Stage of a run: steps that train on one source of batches."""

import dataclasses
from collections.abc import Callable
from typing import Any

from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.run.experiment import Experiment
from agentrl.types import Batch, Metrics, TrainState


@dataclasses.dataclass(frozen=True)
class Stage:
  """Steps [start, end) of a run, which share one state and one counter.

  A loop.Sampler of its steps.

  kind: 'sft' or 'rl'; several stages may be of one kind
  sampler: plays its evaluations
  task: (state, step) -> what to attempt, host arrays
  collect: (state, attempts, step) -> batch, what is measured of it
  collectors: the same by samplers of their own, to collect several batches
    beside the updates; none: each is collected before its update
  halt: ends what the collectors play
  in_jobs: whether the collectors are jobs of their own
  open: reads what the stage is trained on, before the first step it does
  begin: changes the state before the first step of the stage
  update: learner.update; of all seeds where there are several
  """

  name: str
  kind: str
  _: dataclasses.KW_ONLY
  start: int
  end: int
  experiment: Experiment
  sampler: Any
  algorithm: Algorithm
  task: Callable[[TrainState, int], Any]
  collect: Callable[[TrainState, Any, int], tuple[Batch, Metrics]]
  collectors: tuple[Callable, ...] = ()
  halt: Callable[[], None] = lambda: None
  in_jobs: bool = False
  open: Callable[[int], None] = lambda step: None
  begin: Callable[[TrainState], TrainState] = lambda state: state
  update: Callable = update_lib.update
