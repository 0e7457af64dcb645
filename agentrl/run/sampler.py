"""Samplers of a run: play its environment, inside jit or on hosts."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from agentrl import loop
from agentrl.rollout.record import Record
from agentrl.run import build, placement
from agentrl.run import collect as collect_lib
from agentrl.run.host_sampler import HostSampler
from agentrl.types import Attempts, Batch, Metrics, PyTree


class EnvSampler(Protocol):
  """Plays the environment of a run for stages and evaluations."""

  def demo_batch(self, index: np.ndarray) -> Any:
    """Returns what `demonstrate` takes for these training tasks."""

  def demonstrate(self, demos: Any, key) -> Batch:
    """Returns rows of solutions."""

  def collect(self, policy: PyTree, attempts: Attempts, key, step) -> Batch:
    """Returns the batch of an iteration, with rewards."""

  def observe(self, batch: Batch) -> Metrics:
    """Measures what was collected."""

  def play(self, policy: PyTree, attempts: Attempts, key) -> Record:
    """Plays without rewards, for an evaluation."""

  def update_service_params(self, params: dict[str, PyTree]) -> None:
    """Takes the parameters of all roles, before any of the others plays."""


class JitSampler:
  """Plays an environment inside jit; every program is compiled once."""

  def __init__(self, s: build.Experiment):
    self._s, bind = s, functools.partial
    self._replay = placement.sharded(bind(collect_lib.demonstrate, s))
    self._collect = placement.sharded(bind(collect_lib.collect, s))
    self._play = placement.jit_replicated_out(bind(collect_lib.play, s))
    self._messages = functools.cache(lambda: collect_lib.messages(s, s.train))

  def demo_batch(self, index: np.ndarray):
    messages, length = self._messages()
    attempts = collect_lib.demo_attempts(self._s, index)
    return attempts, messages[index], length[index]

  def demonstrate(self, demos, key) -> Batch:
    return self._replay(*placement.replicated(demos), key)

  def collect(self, policy, attempts: Attempts, key, step) -> Batch:
    return self._collect(policy, placement.replicated(attempts), key, step)

  def observe(self, batch: Batch) -> Metrics:
    return loop.observe(batch)

  def play(self, policy, attempts: Attempts, key) -> Record:
    return self._play(policy, placement.replicated(attempts), key)

  def update_service_params(self, params) -> None:
    """Environments inside jit ask no service."""


def open_sampler(
  s: build.Experiment,
  stopping: Callable[[], None] = lambda: None,
  workdir: str = '',
) -> AbstractContextManager[EnvSampler]:
  """Opens the sampler of a run.

  stopping: raises when the run is to end; asked while environments are waited
    for
  workdir: folder of the run, where answers of servers are kept
  """
  if s.on_host:
    return HostSampler(s, stopping, workdir)
  return nullcontext(JitSampler(s))
