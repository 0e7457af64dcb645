"""Hooks of the training loop: logs, evaluation, checkpoints, early stops.

Each is a loop.Hook: called after every step as hook(steps done, state, metrics,
aux), in the order in which they stand here.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from absl import logging

from agentrl.log.metrics import DelayedFetch
from agentrl.log.sample import TrajectoryLogger
from agentrl.runtime.preemption import Stopped
from agentrl.types import TrainState

MAX_NONFINITE_UPDATES = 10  # in a row; then the run stops


class LogMetrics:
  """Writes the metrics of a step once the next one is on its way."""

  def __init__(
    self,
    sinks: Sequence[Callable[..., None]],
    phase_at: Callable[[int], str],
    clock: Callable[[], float],
    shape: tuple[int, ...] = (),
  ):
    """Takes where rows go and what is written beside the metrics.

    Args:
      sinks: (step, scalars, phase=name) -> None
      phase_at: steps done -> name of the stage that did the last one
      clock: seconds this run has been under way, over all its restarts
      shape: of every metric; [S] where S seeds are measured at once
    """
    self._sinks, self._phase_at, self._clock = sinks, phase_at, clock
    self._delayed = DelayedFetch(shape)

  def __call__(self, step, state, metrics, aux) -> None:
    if row := self._delayed.push(step, metrics):
      self.write_metrics(*row, self._phase_at(row[0]))

  def drain(self) -> None:
    """Writes what is still on its way."""
    if row := self._delayed.drain():
      self.write_metrics(*row, self._phase_at(row[0]))

  def write_metrics(self, step: int, scalars: dict, phase: str) -> None:
    for sink in self._sinks:
      sink(step, scalars | {'time/seconds': self._clock()}, phase=phase)


class LogTrajectories:
  """Hands the trajectories that the update sampled to the log, a step late."""

  def __init__(self, logger: TrajectoryLogger, phase_at: Callable[[int], str]):
    self.drain, self._push = logger.drain, logger.push
    self._phase_at = phase_at

  def __call__(self, step, state, metrics, aux) -> None:
    self._push(step, self._phase_at(step), aux)


class SayWhatRuns:
  """Says what a stage compiles, and computes, at present.

  Its methods are the hooks of loop.iterate of their names.
  """

  def __init__(
    self, begin: Callable[..., None], stage: str, *, in_jobs: bool = False
  ):
    """Takes begin: (what, quiet=whether it was said before) -> None.

    Args:
      in_jobs: whether jobs of their own collect the batches
    """
    self._tell, self._stage, self._in_jobs = begin, stage, in_jobs
    self._compiled: set[str] = set()

  def before_collect(self) -> None:
    self._begin('batch')

  def before_update(self) -> None:
    self._begin('update')

  def _begin(self, what: str) -> None:
    again = what in self._compiled
    self._compiled.add(what)
    verb = 'computing' if again else 'compiling'
    if what == 'batch' and self._in_jobs:
      verb = 'waiting for a sampler to collect'
    self._tell(f'{verb} the {self._stage} {what}', quiet=again)


class NothingPlayedError(ValueError):
  """No episode could be played: a program, a world or a server is broken."""


@dataclasses.dataclass
class Evaluate:
  """Plays held-out tasks when they are due.

  An evaluation in which nothing could be played has no row.
  """

  evaluate: Callable[[TrainState, int], dict[str, float]]
  due: Callable[[int], bool]
  log: LogMetrics
  drain: Callable[[], None] = lambda: None  # writes what other logs still hold
  # Steps at which such an evaluation ends the run: nothing was played yet, or
  # nothing will be.
  needed: Collection[int] = ()

  def __call__(self, step, state, metrics, aux) -> None:
    if self.due(step):
      self.log.drain()
      self.drain()
      self._measure(step, state)

  def _measure(self, step: int, state: TrainState) -> None:
    try:
      scalars = self.evaluate(state, step)
    except NothingPlayedError as error:
      if step in self.needed:
        raise
      logging.warning('evaluation after step %d: %s', step, error)
    else:
      self.log.write_metrics(step, scalars, 'eval')


@dataclasses.dataclass
class Checkpoint:
  """Saves the state every so many steps and after the last one.

  A state is saved after its rows: a resumed run must find the row of every
  step that it does not repeat. So `save` flushes all logs first.
  """

  save: Callable[[int, TrainState], None]
  _: dataclasses.KW_ONLY
  every: int
  last: int
  saved: int = 0  # step of the newest checkpoint, or where the run began

  def __call__(self, step, state, metrics, aux) -> None:
    if step % self.every == 0 or step == self.last:
      self.save_if_unsaved(step, state)

  def save_if_unsaved(self, step: int, state: TrainState) -> None:
    if step > self.saved:
      self.save(step, state)
      self.saved = step


class NotFiniteError(ArithmeticError):
  """Too many updates in a row had no finite gradient."""


class StopOnNonFinite:
  """Ends a run whose updates are skipped; `count` is a sink of LogMetrics."""

  def __init__(self, checkpoint: Checkpoint):
    self._checkpoint = checkpoint
    self._skipped: np.ndarray = np.zeros((), np.int32)

  def count(self, step: int, scalars: dict, *, phase: str) -> None:
    if phase != 'eval':
      skips = np.asarray(scalars.get('policy/nonfinite_skips', 0)) == 1
      self._skipped = np.where(skips, self._skipped + 1, 0)

  def __call__(self, step, state, metrics, aux) -> None:
    if np.any(self._skipped >= MAX_NONFINITE_UPDATES):
      self._checkpoint.save_if_unsaved(step, state)
      raise NotFiniteError(
        f'{MAX_NONFINITE_UPDATES} updates in a row had no finite gradient at'
        f' step {step}; the state is saved; lower role.policy.lr or look at the'
        ' last lines of metrics.jsonl'
      )


class StopOnSignal:
  """Ends a run between two steps, or while it collects or evaluates.

  The loop runs inside `with`, so that a Stopped of the sampler or of an
  evaluation is met by the state of the last step too. What was cut left no row,
  and is repeated by the run that goes on.
  """

  def __init__(
    self, check: Callable[[], None], checkpoint: Checkpoint, *, last: int
  ):
    """Takes check: raises Stopped when the run is to end."""
    self._check, self._checkpoint, self._last = check, checkpoint, last
    self._at: tuple[int, Any] = 0, None

  def remember(self, step, state, metrics, aux) -> None:
    """Takes the state that is saved if what follows is cut; a hook."""
    self._at = step, state

  def __enter__(self) -> 'StopOnSignal':
    return self

  def __call__(self, step, state, metrics, aux) -> None:
    self.remember(step, state, metrics, aux)
    if step < self._last:
      self._check()

  def __exit__(self, kind, error, trace) -> None:
    if not isinstance(error, Stopped | NothingPlayedError):
      return
    self._checkpoint.save_if_unsaved(*self._at)
    saved = f'after step {self._at[0]}, the state is saved'
    if isinstance(error, Stopped):
      raise Stopped(
        f'stopped by {error} {saved}; the same command goes on'
      ) from None
    raise NothingPlayedError(
      f'{error}; stopped {saved}; mend that, and the same command goes on'
    ) from error
