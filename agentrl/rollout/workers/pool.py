"""Pool of environment workers, one host environment in each.

    with env_workers(family, 64) as workers:
      future = workers[0].reset(task, seed)  # Future[str]
      ...
      future = workers[0].step('go left')    # Future[Step]

Each worker has a thread that waits for its environment, so no call blocks the
caller. An environment is created at the first reset and serves one task after
another until it fails or is ended.
"""

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol

from agentrl.env import base
from agentrl.env.base import EnvFamily, Step
from agentrl.rollout.workers import executors
from agentrl.rollout.workers.process import (
  ProcessEnv,
  check_process_limit,
  sendable,
)
from agentrl.rollout.workers.remote_env import Cluster, RemoteEnv
from agentrl.rollout.workers.replies import CHARACTERS, EnvError, InProcessEnv

WORKERS = (*base.WORKERS, *base.CLUSTERS)
_GRACE = 3.0  # seconds for environments to end by themselves


class EnvBackend(Protocol):
  """Environment in any place; all but `kill` block, and are for one thread.

  delayed: a call is pending and the environment has not got it yet, so time
  that passes is not its own; read from any thread.
  """

  delayed: bool

  def reset(self, task: Mapping[str, Any], seed: int) -> str: ...

  def step(self, message: str) -> Step: ...

  def rest(self) -> None:
    """Hears that the task is over: only a reset follows; does not block."""

  def close(self) -> None:
    """Shuts the environment down, gracefully where possible; raises nothing."""

  def kill(self) -> bool:
    """Stops it at once, from any thread; False: it cannot be stopped."""


class EnvWorker:
  """One environment, and one call at a time.

  A future holds the environment's result or an `EnvError`; a ValueError is a
  configuration error for the user to fix.
  """

  def __init__(
    self, make: Callable[[], EnvBackend], notify: Callable[[], None]
  ):
    """Calls `notify` whenever a future is done, in whatever thread."""
    self._make, self._notify = make, notify
    self._life: _Life | None = None
    self._future: Future = Future()
    self._future.set_result(None)
    self.gone: list[_Life] = []  # ended, and perhaps still about to leave

  @property
  def delayed(self) -> bool:
    """True while its environment has not got the pending call yet."""
    return self._life is not None and self._life.backend.delayed

  def reset(self, task: Mapping[str, Any], seed: int) -> Future[str]:
    """Begins a task: -> the first observation.

    Raises:
      ValueError: the last call is still pending.
    """
    if self._life is None:
      self._life = _Life(self._make())
    backend = self._life.backend
    return self._ask(lambda: backend.reset(task, seed))

  def step(self, message: str) -> Future[Step]:
    """Plays one turn.

    Raises:
      ValueError: no task is under way, or the last call is not answered.
    """
    if self._life is None:
      raise ValueError('no task is under way in this worker; call reset first')
    backend = self._life.backend
    return self._ask(lambda: backend.step(message))

  def rest(self) -> None:
    """Ends a task that is over, so that a cluster can play another one."""
    if self._life is not None and self._future.done():
      self._life.backend.rest()

  def end(self) -> None:
    """Kills the environment. A pending call raises `EnvError('timeout')`; the
    next reset creates a new one.

    A thread cannot be killed: one that hangs is left behind, and counted.
    """
    if (life := self._left()) is not None:
      busy = not self._future.done()
      _settle(
        self._future, EnvError('timeout', 'it was ended before it answered')
      )
      life.kill(busy)

  def close(self) -> None:
    """Lets an idle environment close itself; ends a busy one."""
    if self._future.done():
      self._left()
    else:
      self.end()

  def _left(self) -> '_Life | None':
    """Detaches the environment and its thread."""
    life, self._life = self._life, None
    if life is not None:
      life.calls.put(None)
      self.gone = [x for x in (*self.gone, life) if x.thread.is_alive()]
    return life

  def _ask(self, call: Callable[[], Any]) -> Future:
    if not self._future.done():
      raise ValueError('the worker has not answered yet; wait, or end it')
    self._future = Future()
    self._future.add_done_callback(lambda _: self._notify())
    assert self._life is not None, 'reset has begun a life'
    self._life.calls.put((call, self._future))
    return self._future


class _Life:
  """An environment and its thread, until it is ended.

  A daemon: the program would wait at exit for a pool thread that hangs.
  """

  def __init__(self, backend: EnvBackend):
    self.backend = backend
    self.calls: queue.SimpleQueue = queue.SimpleQueue()
    self.stuck = False  # in a call that cannot be stopped
    self.thread = threading.Thread(target=self._live, daemon=True)
    self.thread.start()

  def kill(self, busy: bool = True) -> None:
    """Kills what a call runs; an idle thread only has to get its end order."""
    self.stuck = not self.backend.kill() and busy

  def _live(self) -> None:
    while (order := self.calls.get()) is not None:
      call, future = order
      try:
        out = call()
      except BaseException as error:
        out = error
      _settle(future, out)
      del order, call, future, out  # hold no references while waiting
    self.backend.close()


class EnvWorkerPool:
  """A fixed number of workers; made by `env_workers`."""

  def __init__(
    self,
    make: Callable[[], EnvBackend],
    count: int,
    cluster: Cluster | None = None,
  ):
    """Runs them on `cluster`, closed with the pool; None: on this machine."""
    self._cluster = cluster
    # The index of a worker, once for each of its futures that is done.
    self.answered: queue.SimpleQueue[int] = queue.SimpleQueue()
    self._workers = [
      EnvWorker(make, functools.partial(self.answered.put, i))
      for i in range(count)
    ]

  def __len__(self) -> int:
    return len(self._workers)

  def __getitem__(self, i: int) -> EnvWorker:
    return self._workers[i]

  def __enter__(self) -> 'EnvWorkerPool':
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  def left(self) -> int:
    """Counts threads that hang in an environment which was ended."""
    return sum(life.stuck and life.thread.is_alive() for life in self._gone())

  def taken(self) -> dict[str, int]:
    """Returns counts since the last call; {} on this machine."""
    return self._cluster.taken() if self._cluster is not None else {}

  def close(self) -> None:
    """Ends all environments in parallel; no process of theirs is left."""
    for worker in self._workers:
      worker.close()
    end = time.monotonic() + _GRACE
    for life in self._gone():
      if not life.stuck:
        life.thread.join(max(0.0, end - time.monotonic()))
    for life in self._gone():
      if life.thread.is_alive() and not life.stuck:
        life.kill()
        life.thread.join(_GRACE if not life.stuck else 0.0)
    if self._cluster is not None:
      self._cluster.close()

  def _gone(self) -> list[_Life]:
    return [life for worker in self._workers for life in worker.gone]


def env_workers(
  family: EnvFamily,
  count: int,
  *,
  worker: str | None = None,
  characters: int = CHARACTERS,
  cluster: str = '',
  callback: str = '',
) -> EnvWorkerPool:
  """Creates workers for environments of a family; none is started yet.

  Args:
    family: makes the environments.
    count: workers, that is, trajectories under way at the same time.
    worker: one of `WORKERS`; the family's if none is given. Environments in a
      'thread' share this process. A 'process' is a fresh interpreter for each
      worker, which can be killed with all that it started. With 'dask' and
      'ray' every task is an episode in a cluster.
    characters: most of an observation; more is a fault.
    cluster: its address; '': the package's own default, or this machine.
    callback: address of this machine that the cluster's workers reach; '':
      the one from which this machine reaches the cluster.

  Raises:
    ValueError: an invalid argument, a family that cannot be sent to another
      process, more workers than the limit of open files allows, or a cluster
      that does not answer.
  """
  worker = family.worker if worker is None else worker
  if worker not in WORKERS:
    raise ValueError(f'worker={worker!r} is unknown; choose from {WORKERS}')
  for name, value in (('count', count), ('characters', characters)):
    if value < 1:
      raise ValueError(f'{name}={value} leaves no room; use 1 or more')
  if worker == 'thread':
    return EnvWorkerPool(lambda: InProcessEnv(family, characters), count)
  sendable(family)
  check_process_limit(count)
  if worker in executors.CLUSTERS:
    where = executors.CLUSTERS[worker](cluster, count)
    return cluster_workers(
      family, count, where, characters=characters, callback=callback
    )
  return EnvWorkerPool(lambda: ProcessEnv(family, characters), count)


def cluster_workers(
  family: EnvFamily,
  count: int,
  executor: executors.Executor,
  *,
  characters: int = CHARACTERS,
  callback: str = '',
) -> EnvWorkerPool:
  """Creates workers whose episodes are submitted to an executor.

  Args:
    executor: closed with the pool.
    family, count, characters, callback: as of `env_workers`.

  Raises:
    ValueError: a family that cannot be sent, or a callback that is not an
      address of this machine.
  """
  try:
    sendable(family)
    callback = callback or executors.local_address(executor.host)
    where = Cluster(executor, family, characters, callback)
  except ValueError:
    executor.close()
    raise
  return EnvWorkerPool(lambda: RemoteEnv(where), count, where)


def _settle(future: Future, out: Any) -> None:
  """Sets a result or exception; the first of the answer and `end` wins."""
  with contextlib.suppress(InvalidStateError):
    if isinstance(out, BaseException):
      future.set_exception(out)
    else:
      future.set_result(out)
