"""Supervised stages: on demonstrations, a store, or a mixture of sources."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from agentrl.configs.stages import StagePlan
from agentrl.dataset import jit_tasks, mixture
from agentrl.dataset.mixture import TrajectorySource
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.rollout.keys import Stream, step_key
from agentrl.run import placement, trajectory_log
from agentrl.run.experiment import Experiment
from agentrl.run.play.base import EnvSampler
from agentrl.run.stage import sources, stage_state, stored_sft
from agentrl.run.stage.sources import Built


@dataclasses.dataclass(frozen=True)
class SFTStage:
  """Supervised warm start on demonstrations, in epochs of their own."""

  experiment: Experiment
  start: int
  end: int
  sampler: EnvSampler
  name: str = 'sft'
  kind: ClassVar[str] = 'sft'
  update = staticmethod(update_lib.update)

  @property
  def algorithm(self) -> Algorithm:
    s, warm = self.experiment, self.experiment.warm
    return warm._replace(sample=trajectory_log.sampler_of(s, warm, 1))

  def open(self, step: int) -> None:
    """Demonstrations are there from the beginning."""

  def begin(self, state):
    return (
      stage_state.begin_sft(self.experiment, state) if self.start else state
    )

  def task(self, state, step: int):
    c, tasks = self.experiment.config, sources.tasks_with_demos(self.experiment)
    at, batch = step - self.start, c.sft.batch
    order = jit_tasks.epoch_order(len(tasks), c.seed, at, batch)
    return self.sampler.demo_batch(tasks[order])

  def collect(self, state, attempts, step):
    self.sampler.update_service_params(state.params)
    key = step_key(state.key, Stream.SFT, step)
    return self.sampler.demonstrate(attempts, key)

  def observe(self, batch):
    return {}


@dataclasses.dataclass(frozen=True)
class MixedSFTStage(SFTStage):
  """The same on stored trajectories of several sources.

  What the next step reads depends on the step alone: a thread reads it while
  the device is at this one.

  openers: by source: whether the stage begins -> its trajectories
  counts: [T, S] trajectories of each source at each step, see mixture.counts
  """

  openers: Mapping[str, Callable[[bool], TrajectorySource]] = dataclasses.field(
    kw_only=True
  )
  counts: np.ndarray = dataclasses.field(kw_only=True)
  _sources: list[TrajectorySource] = dataclasses.field(
    default_factory=list, kw_only=True
  )
  _ahead: dict[int, Future] = dataclasses.field(
    default_factory=dict, kw_only=True
  )

  def open(self, step: int) -> None:
    """Reads the sources; raises ValueError for one that is empty."""
    begins = step <= self.start
    self._ahead.clear()
    self._sources[:] = [opened(begins) for opened in self.openers.values()]

  def task(self, state, step: int):
    ready = self._ahead.pop(step, None)
    arrays = ready.result() if ready else self._read(step)
    if step + 1 < self.end:
      self._ahead[step + 1] = self._reader.submit(self._read, step + 1)
    return arrays

  @functools.cached_property
  def _reader(self) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, 'stored-trajectories')

  def _read(self, step: int):
    read, seed = self._sources, self.experiment.config.seed
    sizes = [len(source.heads) for source in read]
    chosen = mixture.places(self.counts, sizes, seed, step - self.start)
    taken = [
      source.take(at)
      for source, at in zip(read, chosen, strict=True)
      if len(at)
    ]
    return stored_sft.arrays(self.experiment, [x for xs in taken for x in xs])

  def collect(self, state, attempts, step):
    return self._batch(*placement.replicated(attempts))

  @functools.cached_property
  def _batch(self):
    return placement.sharded(
      functools.partial(stored_sft.batch, self.experiment)
    )


def make(
  plan: StagePlan,
  s: Experiment,
  start: int,
  playing: EnvSampler,
  earlier: Sequence[Any],
  workdir: str,
  built: Built,
) -> SFTStage | None:
  """The supervised stage of a plan; None: no task has a demonstration.

  Args:
    earlier: stages before it
    workdir: folder of the run, whose log 'found' reads
    built: what all stages are built of
  Raises:
    ValueError: a source is missing, empty or does not fit.
  """
  c, place = s.config, (start, start + plan.steps)
  openers: dict[str, Callable[[bool], TrajectorySource]]
  if store := stored_sft.open_store(s):
    counts = np.full((plan.steps, 1), c.sft.batch)
    openers = {'store': lambda begins: store}
  elif c.sft.mix:
    weights = sources.weights(s, plan.steps)
    try:
      counts = mixture.counts(weights, c.sft.batch)
    except ValueError as error:
      raise ValueError(f'stage {plan.name}, sft.mix: {error}') from error
    openers = {
      name: sources.opener(s, name, plan.name, playing, earlier, workdir, built)
      for name in c.sft.mix
    }
  elif not sources.tasks_with_demos(s).size:
    return None
  else:
    return SFTStage(s, *place, playing, plan.name)
  return MixedSFTStage(
    s, *place, playing, plan.name, openers=openers, counts=counts
  )
