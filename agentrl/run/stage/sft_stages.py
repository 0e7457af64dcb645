"""Supervised stages: on demonstrations, a store, or a mixture of sources."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp
import numpy as np

from agentrl.configs.config import Config
from agentrl.configs.stages import StagePlan
from agentrl.dataset import jit_tasks, mixture
from agentrl.dataset.mixture import TrajectorySource
from agentrl.rollout.keys import Stream, step_key
from agentrl.run import placement, trajectory_log
from agentrl.run.experiment import Experiment
from agentrl.run.play.base import EnvSampler
from agentrl.run.stage import sources, stage_state, stored_sft
from agentrl.run.stage.base import Stage
from agentrl.run.stage.sources import Built
from agentrl.types import TrainState

BOTH = 2  # halves of a pair, neighbours in the data of sft.pairs


def sft_stage(
  s: Experiment,
  start: int,
  end: int,
  playing: EnvSampler,
  name: str = 'sft',
  carried: Collection[str] = (),
) -> Stage:
  """Returns a supervised warm start on demonstrations, in epochs of its own.

  Args:
    carried: roles that go on, where it trains on pairs
  """

  @functools.cache
  def tasks_with_demos() -> np.ndarray:
    return sources.tasks_with_demos(s)  # looks at every task

  def task(state: TrainState, step: int) -> Any:
    c, tasks = s.config, tasks_with_demos()
    order = jit_tasks.epoch_order(len(tasks), c.seed, step - start, c.sft.batch)
    return playing.demos(tasks[order])

  def collect(state: TrainState, demos: Any, step: int):
    playing.update_service_params(state.params)
    key = step_key(state.key, Stream.SFT, step)
    return playing.replay(demos, key), {}

  def begin(state: TrainState) -> TrainState:
    if s.config.sft.pairs:
      return stage_state.begin_rl(s, state, start, carried)
    return stage_state.begin_sft(s, state) if start else state

  return Stage(
    name,
    'sft',
    start=start,
    end=end,
    experiment=s,
    sampler=playing,
    algorithm=s.warm._replace(sample=trajectory_log.sampler_of(s, s.warm, 1)),
    task=task,
    collect=collect,
    begin=begin,
  )


def mixed_sft_stage(
  one: Stage,
  openers: Mapping[str, Callable[[bool], TrajectorySource]],
  counts: np.ndarray,
) -> Stage:
  """Returns the stage, trained on stored trajectories of several sources.

  Args:
    openers: by source: whether the stage begins -> its trajectories
    counts: [T, S] trajectories of each source at each step, or pairs of them,
      see mixture.counts
  """
  s = one.experiment
  reader = MixtureReader(s, one.start, one.end, openers, counts)
  batch = functools.cache(
    lambda: placement.sharded(functools.partial(stored_sft.batch, s))
  )

  def collect(state: TrainState, arrays: Any, step: int):
    return batch()(*placement.replicated(arrays)), {}

  return dataclasses.replace(
    one, task=reader.task, collect=collect, open=reader.open
  )


class MixtureReader:
  """Reads stored trajectories of several sources, a step ahead.

  What the next step reads depends on the step alone: a thread reads it while
  the device is at this one.
  """

  def __init__(
    self,
    s: Experiment,
    start: int,
    end: int,
    openers: Mapping[str, Callable[[bool], TrajectorySource]],
    counts: np.ndarray,
  ):
    """Opens nothing yet; arguments as of `mixed_sft_stage`."""
    self._s, self._start, self._end = s, start, end
    self._openers, self._counts = openers, counts
    self._sources: list[TrajectorySource] = []
    self._ahead: dict[int, Future] = {}

  def open(self, step: int) -> None:
    """Opens the sources; raises ValueError for one that is empty."""
    begins = step <= self._start
    self._ahead.clear()
    self._sources = [opened(begins) for opened in self._openers.values()]

  def task(self, state: TrainState, step: int) -> Any:
    """Returns the arrays of a step, and begins to read the next."""
    ready = self._ahead.pop(step, None)
    arrays = ready.result() if ready else self.read(step)
    if step + 1 < self._end:
      self._ahead[step + 1] = self._thread.submit(self.read, step + 1)
    return arrays

  def read(self, step: int) -> Any:
    """Reads the trajectories of a step, as host arrays."""
    read, c = self._sources, self._s.config
    each = together(c)
    sizes = [len(source.heads) // each for source in read]
    chosen = mixture.places(self._counts, sizes, c.seed, step - self._start)
    taken = [
      source.take((each * at[:, None] + np.arange(each)).reshape(-1))
      for source, at in zip(read, chosen, strict=True)
      if len(at)
    ]
    xs = [x for xs in taken for x in xs]
    record, attempts = stored_sft.arrays(self._s, xs)
    if c.sft.pairs:  # a group each, also where a pair or its task comes twice
      group = jnp.arange(len(xs), dtype=jnp.int32) // each
      attempts = attempts.replace(group=group)
    return record, attempts

  @functools.cached_property
  def _thread(self) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, 'stored-trajectories')


def together(c: Config) -> int:
  """Returns how many neighbours of the data are drawn together."""
  return BOTH if c.sft.pairs else 1


def make(
  plan: StagePlan,
  s: Experiment,
  start: int,
  playing: EnvSampler,
  earlier: Sequence[Any],
  workdir: str,
  built: Built,
  carried: Collection[str] = (),
) -> Stage | None:
  """Makes the supervised stage of a plan; None: without demonstrations.

  Args:
    earlier: stages before it
    workdir: folder of the run, whose log 'found' reads
    built: what all stages are built of
    carried: roles that go on, where it trains on pairs
  Raises:
    ValueError: a source is missing, empty or does not fit.
  """
  c = s.config
  size = c.sft.batch // together(c)
  one = sft_stage(s, start, start + plan.steps, playing, plan.name, carried)
  openers: dict[str, Callable[[bool], TrajectorySource]]
  if store := stored_sft.open_store(s):
    counts = np.full((plan.steps, 1), size)
    openers = {'store': lambda begins: store}
  elif c.sft.mix:
    weights = sources.weights(s, plan.steps)
    try:
      counts = mixture.counts(weights, size)
    except ValueError as error:
      raise ValueError(f'stage {plan.name}, sft.mix: {error}') from error
    openers = {
      name: sources.opener(s, name, plan.name, playing, earlier, workdir, built)
      for name in c.sft.mix
    }
  elif not sources.tasks_with_demos(s).size:
    return None
  else:
    return one
  return mixed_sft_stage(one, openers, counts)
