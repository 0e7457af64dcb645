"""Training of a run: stage after stage, with the hooks of every step."""

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl import hooks as hooks_lib
from agentrl import loop, registry
from agentrl.hooks import SayWhatRuns
from agentrl.learner.algorithm import BEHAVIOUR, POLICY
from agentrl.log import drift, no_gradient, progress
from agentrl.log.sample import TrajectoryLogger
from agentrl.rollout import tickets
from agentrl.run import algorithm, placement
from agentrl.run.experiment import Experiment
from agentrl.run.outputs import RunOutputs
from agentrl.run.stage.base import Stage
from agentrl.runtime import distributed
from agentrl.types import Batch, Metrics, TrainState


class StepHooks(NamedTuple):
  """Hooks of a run, in the order in which a step calls them.

  `stop` is called last; it remembers the state of the step first.
  """

  log: hooks_lib.LogMetrics
  samples: hooks_lib.LogTrajectories
  evaluation: hooks_lib.Evaluate
  saving: hooks_lib.Checkpoint
  nonfinite: hooks_lib.StopOnNonFinite
  stop: hooks_lib.StopOnSignal


def train_stages(
  stages: Sequence[Stage],
  state: TrainState,
  outputs: RunOutputs,
  logger: TrajectoryLogger,
  *,
  evaluate: Callable,
  due: Callable[[int], bool],
  save_every: int,
  stopping: Callable[[], None] = lambda: None,
  ended: Sequence[Callable[[], None]] = (),
  spent: float = 0.0,
  reporter: progress.Progress = progress.SILENT,
) -> Generator[tuple[str, int, TrainState, Metrics]]:
  """Trains stage after stage, from state.step to the end of the last.

  Yields (kind of stage, steps done, state, metrics) after each step. The state
  is donated to the next step; a caller that closes the iterator between two
  steps leaves a saved one.

  Args:
    ended: what to call after the last step, unless the run is cut before
    spent: seconds that the run took before it was resumed
    reporter: writes what is done, and how far; by default nothing does
  Raises:
    Stopped: by a signal or a lost lock; the state is saved.
    NotFiniteError: no update has been possible for a while; it is saved too.
    NothingPlayedError: nor has an episode; it is saved too.
  """
  first = int(state.step.min())
  hooks = make_hooks(
    stages,
    state,
    outputs,
    logger,
    evaluate=evaluate,
    due=due,
    save_every=save_every,
    stopping=stopping,
    spent=spent,
    reporter=reporter,
  )
  with hooks.stop:
    hooks.stop.remember(first, state, {}, None)
    if not outputs.evaluated(first):  # a stop cut it, or nothing was done yet
      hooks.evaluation(first, state, {}, None)
    for stage in stages:
      step = int(state.step.min())
      if step < stage.end:
        if step > first:  # it may read what this run has logged so far
          hooks.log.drain()
          logger.flush()
        try:
          stage.open(step)
        except ValueError:
          hooks.saving.save_if_unsaved(step, state)
          raise
      if step == stage.start:
        state = stage.begin(state)
      hooks.stop(step, state, {}, None)
      runs = SayWhatRuns(reporter.begin, stage.name, in_jobs=stage.in_jobs)
      with collecting(stage) as sampler:
        steps = loop.iterate(
          stage.algorithm,
          sampler,
          state,
          steps=stage.end,
          hooks=[hooks.stop.remember, *hooks],
          before_collect=runs.before_collect,
          before_update=runs.before_update,
          update=stage.update,
        )
        for step, state, numbers in steps:
          try:
            yield stage.kind, step, state, numbers
          except GeneratorExit:
            hooks.saving.save_if_unsaved(step, state)
            raise
  for call in ended:
    call()


def collecting(stage: Stage) -> AbstractContextManager[loop.Sampler]:
  """Opens what makes the batches of a stage: itself, or beside its updates."""
  if not (stage.collectors or stage.in_jobs):
    return contextlib.nullcontext(stage)
  s = stage.experiment
  how = s.config.staleness
  where = placement.Jobs() if stage.in_jobs else placement.Samplers(s.config)
  ahead = tickets.Tickets(
    tickets.Book(how.bound, how.order, first=stage.start, end=stage.end),
    stage.task,
    [where.collector(x) for x in stage.collectors],
    reads=algorithm.reads(s.config, s.algorithm),
    publish=where.publish,
    halt=stage.halt,
    follow=how.swap != 'batch',
  )
  if stage.in_jobs and jax.process_count() > 1:
    return contextlib.closing(InEveryProcess(ahead))
  return contextlib.closing(ahead)


class InEveryProcess:
  """Gives all processes the batches that the first one has collected."""

  def __init__(self, ahead: tickets.Tickets):
    self._ahead, self.close = ahead, ahead.close
    self.task = ahead.task

  def collect(
    self, state: TrainState, attempts: None, step: int
  ) -> tuple[Batch, Metrics]:
    self._ahead.publish(state, step)
    made = distributed.allgather_objects(
      lambda: [self._ahead.take(step)] if distributed.first() else []
    )
    batch, metrics = made[0][0]
    return placement.Jobs().place(batch), metrics


def make_hooks(
  stages: Sequence[Stage],
  state: TrainState,
  outputs: RunOutputs,
  logger: TrajectoryLogger,
  *,
  evaluate: Callable,
  due: Callable[[int], bool],
  save_every: int,
  stopping: Callable[[], None],
  spent: float,
  reporter: progress.Progress,
) -> StepHooks:
  """Makes the hooks of a run that begins with the state; see `train_stages`."""
  began, first, end = time.monotonic(), int(state.step.min()), stages[-1].end

  def clock() -> float:
    return spent + time.monotonic() - began

  def phase_at(step: int) -> str:
    return next(s.name for s in stages if s.start < step <= s.end)

  def play(state: TrainState, step: int) -> dict[str, Any]:
    reporter.begin('evaluating on held-out tasks')
    return evaluate(state, step)

  def save(step: int, state: TrainState) -> None:
    reporter.begin(f'saving step {step}', quiet=True)
    log.drain()
    logger.drain()
    outputs.save(step, state, {'seconds': clock()})

  saving = hooks_lib.Checkpoint(save, every=save_every, last=end, saved=first)
  nonfinite = hooks_lib.StopOnNonFinite(saving)
  log = hooks_lib.LogMetrics(
    [outputs.write, nonfinite.count, ProgressLine(stages, reporter)],
    phase_at,
    clock,
    state.step.shape,
  )
  return StepHooks(
    log=log,
    samples=hooks_lib.LogTrajectories(logger, phase_at),
    evaluation=hooks_lib.Evaluate(
      play, due, log, drain=logger.drain, needed=(first, end)
    ),
    saving=saving,
    nonfinite=nonfinite,
    stop=hooks_lib.StopOnSignal(stopping, saving, last=end),
  )


def drift_limits(s: Experiment) -> drift.Limits | None:
  """Returns what old batches must not exceed; None where no loss says.

  That is a loss which clips the ratio to the policy that sampled.
  """
  c = s.config
  if not c.staleness.bound or c.staleness.anchor != BEHAVIOUR:
    return None
  spec = s.algorithm.spec
  for name in spec.loss:
    ((_, hp),) = registry.settings_of(spec, 'loss', name)
    if {'clip_low', 'clip_high'} <= hp.keys():
      radius = drift.clip_range(hp['clip_low'], hp['clip_high'])
      rate = s.algorithm.context.rules[POLICY].lr
      return drift.Limits(c.staleness.bound, name, radius, rate)
  return None


class ProgressLine:
  """Tells the reporter how far a run is; a sink of LogMetrics."""

  def __init__(self, stages: Sequence[Stage], reporter: progress.Progress):
    self._stages = {stage.name: stage for stage in stages}
    self._reporter = reporter
    self._learning = no_gradient.NoGradient(reporter.say)
    self._speed = {
      stage.name: drift.TooFast(limits, reporter.say)
      for stage in stages
      if stage.kind == 'rl' and (limits := drift_limits(stage.experiment))
    }

  def __call__(self, step: int, scalars: dict, *, phase: str) -> None:
    means = {}
    for name in progress.SHOW.keys() & scalars.keys():
      # None of a seed that lacks it, NaN where nothing was scored.
      values = [x for x in np.atleast_1d(scalars[name]) if x is not None]
      if finite := [x for x in values if np.isfinite(x)]:
        means[name] = np.mean(finite)
    if phase == 'eval':
      if (solved := means.get('eval/success')) is not None:
        text = f'held-out success after step {step}: {solved:.1%}'
        self._reporter.say(text)
      return
    stage = self._stages[phase]
    if stage.kind == 'rl':
      self._learning.see(scalars)
    if phase in self._speed:
      self._speed[phase].see(scalars)
    done, steps = step - stage.start, stage.end - stage.start
    self._reporter.update(phase, done, steps, means)
