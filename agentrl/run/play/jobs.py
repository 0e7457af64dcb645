"""Batches that jobs of their own collect: the learner's side.

The workdir has, below `samplers/`,

  learner.json                 where the learner listens, and the key to it
  base/<stage>/v000000         what rollouts read and training never changes
  weights/<stage>/<role>/v...  what it changes: a stream of versions per role

A role's version is published once, before the first order that names it, and a
job reads of an order what it does not hold: a policy that has not learned since
is neither written nor read again.

A job needs the workdir and nothing else (run/sampler_job.py).
"""

import contextlib
import functools
import ipaddress
import json
import os
import pathlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import jax.numpy as jnp
from absl import logging

import agentrl
from agentrl.learner import policies
from agentrl.learner.algorithm import Algorithm
from agentrl.rollout import jobs, tickets
from agentrl.run import workdir as workdir_lib
from agentrl.runtime import publish, text_files
from agentrl.runtime.preemption import Stopped
from agentrl.types import Attempts, Batch, Metrics, TrainState

FOLDER, ADDRESS = 'samplers', 'learner.json'
_LOOK = 0.2  # seconds until one that waits asks whether the run is to end
_ALONE = 30.0  # seconds without a sampler after which that is said


def folder(workdir: str) -> pathlib.Path:
  return pathlib.Path(workdir) / FOLDER


def write_address(
  place: pathlib.Path, address: tuple[str, int], key: bytes
) -> None:
  """Writes where a learner listens, for this user's eyes alone."""
  place.mkdir(parents=True, exist_ok=True)
  part = place / f'.{ADDRESS}.{os.getpid()}'
  part.unlink(missing_ok=True)
  handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
  host, port = address
  with open(handle, 'w', encoding='utf-8') as f:
    json.dump({'host': host, 'port': port, 'key': key.hex()}, f)
  part.replace(place / ADDRESS)


def read_address(
  place: pathlib.Path,
) -> tuple[tuple[str, int], bytes] | None:
  """Reads where a learner listens, and the key; None: none does, or not yet."""
  with contextlib.suppress(OSError, ValueError):
    match text_files.read_json(place / ADDRESS):
      case {'host': str(host), 'port': int(port), 'key': str(key)}:
        return (host, port), bytes.fromhex(key)
  return None


def check_reached(name: str, host: str) -> None:
  """Checks that a machine does not take its own name for a loopback.

  Args:
    name: staleness.address
    host: numeric address that was found for it
  Raises:
    ValueError: it does, as many systems do, and others could not reach it.
  """
  if name == host or 'localhost' in name:
    return
  if ipaddress.ip_address(host.partition('%')[0]).is_loopback:
    raise ValueError(
      'staleness.address must be reached by other machines, got'
      f' {name!r}, which is {host} here; give the number of this machine in'
      ' their network'
    )


def greeting(c: Any) -> tuple[str, str]:
  """Returns what learner and samplers must have in common."""
  return agentrl.__version__, workdir_lib.fingerprint(c)


def base_of(state: TrainState, still: tuple[str, ...]) -> dict[str, Any]:
  """Returns what rollouts read of a state and training never changes.

  Memories stay where attempts are chosen, with the learner.

  Args:
    still: roles that never change
  """
  return {'key': state.key, 'roles': {x: state.params[x] for x in still}}


def streams(
  alg: Algorithm, state: TrainState, still: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
  """Lists the roles that change, each with the version that a state holds."""
  step = int(state.step)
  own = policies.versions(alg, step)
  return tuple(
    (role, int(own.get(role, step)))
    for role in state.params
    if role not in still
  )


class SamplerJobs:
  """What a learner has jobs collect, open until `close`."""

  def __init__(
    self,
    c: Any,
    workdir: str,
    stopping: Callable[[], None] = lambda: None,
  ):
    """Listens for samplers, in a folder whose lock this process holds.

    Args:
      stopping: raises when the run is to end
    Raises:
      ValueError: staleness.address is no address of this machine, or of it
        alone.
    """
    self._folder, self._stopping = folder(workdir), stopping
    self._kept = c.staleness.bound + 2
    self._how = f'python -m experiments.sampler --workdir={workdir}'
    try:
      self._board = jobs.Board(
        c.staleness.address, greeting(c), mend=self._republish
      )
    except OSError as error:
      raise ValueError(
        'staleness.address must be an address of this machine, got'
        f' {c.staleness.address!r} ({error})'
      ) from error
    try:
      check_reached(c.staleness.address, self._board.address[0])
    except ValueError:
      self._board.close()
      raise
    # A killed learner has left versions, which this one will make otherwise.
    shutil.rmtree(self._folder, ignore_errors=True)
    self._lock = threading.Lock()  # of what is published
    self._published: set[tuple[str, int]] = set()  # role, version
    self._stage = ''  # whose they are
    self._states: dict[int, TrainState] = {}  # by step; of orders that wait
    self._still: dict[str, tuple[str, ...]] = {}  # by stage
    self._where = self._board.address, self._board.key
    write_address(self._folder, *self._where)
    logging.info('samplers are started by: %s', self._how)

  def __enter__(self) -> 'SamplerJobs':
    return self

  def end(self) -> None:
    """Sends the samplers home as this is left: the run is done."""
    self._board.end()

  def __exit__(self, *_) -> None:
    """Leaves the samplers, which wait for a run that is not done."""
    # Who has taken the lock from this process listens there now.
    own = read_address(self._folder) in (None, self._where)
    if own:
      (self._folder / ADDRESS).unlink(missing_ok=True)
    self._board.close()
    if own:
      shutil.rmtree(self._folder, ignore_errors=True)

  def collector(
    self, stage: str, still: tuple[str, ...], halted: threading.Event
  ) -> Callable[[Algorithm], tickets.Collect]:
    """Returns what has one batch of a stage collected at a time.

    Given the algorithm of the stage.

    Args:
      still: roles that rollouts read and training never changes
      halted: set when the stage needs no more batches
    """
    self._still[stage] = still

    def collect(
      alg: Algorithm, state: TrainState, attempts: Attempts, step: int
    ) -> tuple[Batch, Metrics]:
      order = jobs.Order(
        stage,
        step,
        int(state.step),
        jobs.host_arrays(attempts),
        start=alg.start,
        versions=streams(alg, state, still),
      )
      began = time.monotonic()
      self._publish(order, state)
      published = time.monotonic() - began
      made = self._wait(order, state, halted)
      return made.batch, made.metrics | _metrics(
        {
          'time/publish_seconds': published,
          'time/collect_seconds': made.seconds,
          'samplers/connected': self._board.connected,
          **{f'samplers/{k}': n for k, n in self._board.taken().items()},
        }
      )

    return lambda alg: functools.partial(collect, alg)

  def _wait(
    self, order: jobs.Order, state: TrainState, halted: threading.Event
  ) -> jobs.Collected:
    self._states[order.step] = state
    future, said = self._board.offer(order), time.monotonic()
    try:
      while not futures.wait([future], timeout=_LOOK).done:
        if halted.is_set():
          raise Stopped('the end of its stage')
        self._stopping()
        now = time.monotonic()
        if self._board.connected:
          said = now
        elif now - said > _ALONE:
          said = now
          logging.warning('no sampler is connected; start one: %s', self._how)
      return future.result()
    finally:
      future.cancel()
      del self._states[order.step]

  def _publish(self, order: jobs.Order, state: TrainState) -> None:
    """Publishes the versions that no order before has named."""
    with self._lock:
      if self._stage != order.stage:
        self._begin(order, state)
      new = [x for x in order.versions if x not in self._published]
      if not new:
        return
      if read_address(self._folder) is None:  # the folder was emptied
        write_address(self._folder, *self._where)
      self._write(order, state, new)
      self._published.update(new)

  def _begin(self, order: jobs.Order, state: TrainState) -> None:
    """Publishes the base of a stage; what an earlier one had goes."""
    self._published.clear()
    for kind in ('base', 'weights'):
      shutil.rmtree(self._folder / kind, ignore_errors=True)
    self._write_base(order, state)
    self._stage = order.stage

  def _republish(self, order: jobs.Order) -> None:
    """Publishes versions again that a sampler found damaged."""
    with self._lock:
      if (state := self._states.get(order.step)) is None:
        return  # nobody waits for it any more
      self._write_base(order, state)
      self._write(order, state, order.versions)

  def _write_base(self, order: jobs.Order, state: TrainState) -> None:
    base = base_of(state, self._still[order.stage])
    publish.publish_arrays(self._folder / 'base' / order.stage, 0, base)

  def _write(
    self,
    order: jobs.Order,
    state: TrainState,
    versions: Sequence[tuple[str, int]],
  ) -> None:
    place = self._folder / 'weights' / order.stage
    for role, version in versions:
      own = state.params[role]
      publish.publish_arrays(place / role, version, own, kept=self._kept)


def _metrics(values: dict[str, float]) -> Metrics:
  return {k: (jnp.float32(x), jnp.ones(())) for k, x in values.items()}
