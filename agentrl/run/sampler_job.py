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
from agentrl.run.play.base import EnvSampler
from agentrl.run.stage import stages
from agentrl.runtime import publish
from agentrl.runtime.line import Line, UnknownPeerError, dial
from agentrl.runtime.preemption import Stopped
from agentrl.types import Batch, Metrics, PyTree, TrainState

_LOOK = 1.0  # seconds between two looks for a learner


class Weights:
  """What was ordered last of every role of a stage, each version read once."""

  def __init__(
    self,
    folder: pathlib.Path,
    stage: str,
    like: TrainState,
    still: tuple[str, ...],
  ):
    """Takes where versions are published.

    Args:
      like: shapes of what rollouts read
      still: roles that never change
    """
    self._stage, self._folder, self._like = stage, folder, like
    self._base = play_jobs.base_of(like, still)
    self.forget()

  def forget(self) -> None:
    """Drops what it holds: the learner is another one."""
    self._still: dict[str, Any] | None = None
    self._held: dict[str, tuple[int, PyTree]] = {}  # by role

  def at(self, order: jobs.Order) -> TrainState:
    """Returns what rollouts read for an order, on this job's devices.

    Raises:
      jobs.DamagedWeights: a version is not as it was published.
    """
    try:
      self._read(order)
    except ValueError as error:
      raise jobs.DamagedWeights(str(error)) from error
    assert self._still is not None
    own = {role: params for role, (_, params) in self._held.items()}
    return self._like.replace(
      step=placement.replicated(jnp.int32(order.version)),
      params=self._still['roles'] | own,
      key=self._still['key'],
    )

  def _read(self, order: jobs.Order) -> None:
    """Reads the base, and of each role the version that is not held."""
    if self._still is None:
      base = self._folder / 'base' / self._stage
      self._still = placement.replicated(
        publish.fetch_arrays(base, 0, self._base)
      )
    for role, version in order.versions:
      if role in self._held and self._held[role][0] == version:
        continue
      self._held.pop(role, None)  # room for the next
      place = self._folder / 'weights' / self._stage / role
      new = publish.fetch_arrays(place, version, self._like.params[role])
      self._held[role] = version, placement.replicated(new)


def read_of(s: Experiment) -> tuple[TrainState, tuple[str, ...]]:
  """Returns the shapes of what rollouts read, and the roles that stay."""
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
  return like, read.still


class _Stage(NamedTuple):
  experiment: Experiment
  player: EnvSampler
  weights: Weights

  def collect(self, order: jobs.Order) -> tuple[Batch, Metrics]:
    """Collects as the learner's own stage would, which begins at its start."""
    alg = self.experiment.algorithm._replace(start=order.start)
    run = stages.collector(self.experiment, alg, self.player)
    return run(self.weights.at(order), order.attempts, order.step)


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
      place = play_jobs.folder(workdir)
      weights = Weights(place, plan.name, *read_of(s))
      out[plan.name] = _Stage(s, players[plan.name], weights)
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
        batch, metrics = by_name[order.stage].collect(order)
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
