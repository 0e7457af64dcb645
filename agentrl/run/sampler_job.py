"""A sampler in a job of its own: collects what the learner of a run orders.

It reads the config and the weights from the run's folder, and talks to the
learner at the address that it finds there. It may join at any time, leave, or
die: what it had not finished is collected by another one. A learner that is
away is waited for, since it may be resumed.
"""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from absl import logging

from agentrl import mesh
from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.rollout import jobs
from agentrl.run import algorithm, build, placement
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import fields
from agentrl.run.experiment import Experiment
from agentrl.run.play import jobs as play_jobs
from agentrl.run.play import sampler
from agentrl.run.stage import stages
from agentrl.runtime import publish
from agentrl.runtime.line import Line, UnknownPeerError, dial
from agentrl.runtime.preemption import Stopped
from agentrl.types import Batch, Metrics, PyTree, TrainState

_LOOK = 1.0  # seconds between two looks for a learner


class Weights:
  """The newest version that was ordered, of one stage, read once."""

  def __init__(self, folder: pathlib.Path, stage: str, s: Experiment):
    self._stage, self._folder = stage, folder
    read = algorithm.reads(s.config, s.algorithm)
    modules = s.algorithm.context.modules
    names = (*read.roles, *read.still)
    like = TrainState(
      step=jax.eval_shape(lambda: jnp.int32(0)),
      params={name: mesh.abstract(modules[name].specs) for name in names},
      opt={},
      signal={},
      memory=(),
      key=jax.eval_shape(lambda: jax.random.key(0)),
    )
    self._base, self._own = play_jobs.split(like, read.still)
    self.forget()

  def forget(self) -> None:
    """Drops what it holds: the learner is another one."""
    self._still: dict[str, PyTree] | None = None
    self._held: tuple[int, TrainState] | None = None

  def at(self, version: int) -> TrainState:
    """Returns what rollouts read of a version, on this job's devices.

    Raises:
      jobs.DamagedWeights: it is not as it was published.
    """
    if self._held is None or self._held[0] != version:
      self._held = None  # room for the next
      self._held = version, self._read(version)
    return self._held[1]

  def _read(self, version: int) -> TrainState:
    weights = self._folder / 'weights' / self._stage
    base = self._folder / 'base' / self._stage
    try:
      if self._still is None:
        found = publish.fetch_arrays(base, 0, self._base) if self._base else {}
        self._still = placement.replicated(found)
      state = publish.fetch_arrays(weights, version, self._own)
    except ValueError as error:
      raise jobs.DamagedWeights(str(error)) from error
    state = placement.replicated(state)
    return state.replace(params={**self._still, **state.params})


class _Stage(NamedTuple):
  collect: Callable[[TrainState, Any, int], tuple[Batch, Metrics]]
  weights: Weights


def config_of(
  workdir: str, *, stopping: Callable[[], None], patience: float
) -> Config:
  """Reads the config of a run, waiting for one that is about to begin.

  Raises:
    ValueError: there is none, or it wants more devices than are here.
  """
  end = time.monotonic() + patience
  while not (pathlib.Path(workdir) / workdir_lib.CONFIG).exists():
    stopping()
    if time.monotonic() > end:
      break
    time.sleep(_LOOK)
  c = fields.read(workdir_lib.read_config(workdir))
  devices, there = c.staleness.devices or 1, len(jax.devices())
  if devices > there:
    raise ValueError(
      f'staleness.devices={devices} of {workdir} must be at most the devices of'
      f' each sampler, got {there} here; resume the run with fewer'
    )
  alone = dataclasses.replace(
    c.mesh, data=devices, fsdp=1, expert=1, sequence=1, tensor=1
  )
  return dataclasses.replace(c, mesh=alone)


@contextlib.contextmanager
def opened(
  c: Config, workdir: str, stopping: Callable[[], None]
) -> Iterator[dict[str, _Stage]]:
  """Opens what collects the batches of each RL stage of a run, by its name."""
  plans = stage_list.plans(c)
  experiments = build.experiments([c])
  built = build.stage_experiments(experiments, plans)
  trained = {x.name: built[x.name] for x in plans if x.kind == 'rl'}
  with contextlib.ExitStack() as stack:
    stack.enter_context(placement.on_mesh(c))
    players = sampler.open_samplers(stack, trained, stopping, workdir)
    out = {}
    for plan in plans:
      if plan.kind != 'rl':
        continue
      s = trained[plan.name][0]
      made = stages.rl_stage(s, 0, plan.steps, players[plan.name])
      place = play_jobs.folder(workdir)
      out[plan.name] = _Stage(made.collect, Weights(place, plan.name, s))
    yield out


def serve(
  workdir: str,
  *,
  stopping: Callable[[], None] = lambda: None,
  patience: float = 600.0,
  say: Callable[[str], None] = print,
) -> int:
  """Collects for the learner of a run until it ends; returns the batches.

  Args:
    stopping: raises Stopped when this job is to end
    patience: seconds to wait for a learner, at first and each time it goes
    say: takes a line of progress
  Raises:
    ValueError: the run is of another version of agentrl, or no learner of it
      has listened in that time.
  """
  c = config_of(workdir, stopping=stopping, patience=patience)
  halted, count, met = threading.Event(), 0, False

  def stop() -> None:
    stopping()
    if halted.is_set():
      raise Stopped('the learner is gone')

  with opened(c, workdir, stop) as by_name:

    def collect(order: jobs.Order) -> tuple[Batch, Metrics]:
      nonlocal count
      with placement.on_mesh(c):  # of this thread
        stage = by_name[order.stage]
        state = stage.weights.at(order.version)
        batch, metrics = stage.collect(state, order.attempts, order.step)
      count += 1
      return jobs.host_arrays((batch, metrics))

    say(f'waiting for the learner of {workdir}, run with staleness.jobs')
    while (line := _found(workdir, c, stopping, patience)) is not None:
      say('connected to the learner')
      met = True
      for stage in by_name.values():
        stage.weights.forget()
      with line:
        try:
          jobs.work(line, collect, stop, halted)
        except (OSError, EOFError):
          say('the learner is gone; waiting for it')
          continue
      say('the run has ended')
      return count
  if not met:
    raise ValueError(
      f'--workdir must be of a run whose learner listens for samplers, got'
      f' {workdir}, where none has for {patience:g} s; start it with'
      ' --config.staleness.jobs'
    )
  say(f'the learner has not come back for {patience:g} s')
  return count


def _found(
  workdir: str, c: Config, stopping: Callable[[], None], patience: float
) -> Line | None:
  """Calls the learner of a run; None: there is none."""
  place = play_jobs.folder(workdir)
  end = time.monotonic() + patience
  while time.monotonic() < end:
    stopping()
    if found := play_jobs.read_address(place):
      try:
        line = dial(*found)
        jobs.greet(line, play_jobs.greeting(c))
        return line
      except (OSError, EOFError, UnknownPeerError) as error:
        logging.debug('no learner at %s: %s', found[0], error)
    time.sleep(_LOOK)
  return None
