"""Clusters as executors: `submit` an episode, `cancel` it, and no more.

Dask, Ray and `concurrent.futures` differ only here. All of them pickle what is
submitted, so a cluster is trusted; what its environments reply is not, and
travels as JSON (`runtime/line.py`).
"""

import concurrent.futures
import contextlib
import importlib
import importlib.util
import os
import socket
import threading
import urllib.parse
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol

from absl import logging

from agentrl.runtime import install

_CONNECT = 20  # seconds to reach a scheduler
LOOPBACK = '127.0.0.1'


class Executor(Protocol):
  """Place where functions are called, as in `concurrent.futures`.

  host: of the cluster; the trainer listens where this is reached from.
  """

  host: str

  def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future: ...

  def close(self) -> None:
    """Releases it; tasks that are under way end with it."""


class FuturesExecutor:
  """Executor of `concurrent.futures` on this machine.

  A pool of processes is broken for good once one of them has died, so it is
  made anew.
  """

  host = LOOPBACK

  def __init__(self, make: Callable[[], concurrent.futures.Executor]):
    self._make, self._pool = make, make()
    self._lock = threading.Lock()  # of the pool

  def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future:
    with self._lock:
      try:
        return self._pool.submit(fn, *args)
      except concurrent.futures.BrokenExecutor:
        self._pool = self._make()
        return self._pool.submit(fn, *args)

  def close(self) -> None:
    self._pool.shutdown(wait=False, cancel_futures=True)


class DaskExecutor:
  """Client of a Dask scheduler; an episode holds a thread of a worker."""

  def __init__(self, address: str, count: int):
    """Connects, or starts a cluster on this machine where none is named.

    Args:
      address: 'tcp://HOST:PORT'; '': DASK_SCHEDULER_ADDRESS or what the
        configuration of Dask says, if either is set
      count: episodes under way

    Raises:
      ValueError: it is not installed, or no scheduler answers.
    """
    check_package('dask')
    distributed = importlib.import_module('distributed')
    dask = importlib.import_module('dask')
    address = address or dask.config.get('scheduler-address', None) or ''
    self._cluster = None
    if not address:
      workers = min(count, os.cpu_count() or 1)
      self._cluster = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=-(-count // workers),
        dashboard_address=f'{LOOPBACK}:0',
      )
    _knock('Dask scheduler', address)
    try:
      self._client = distributed.Client(
        self._cluster or address, timeout=_CONNECT, set_as_default=False
      )
    except (OSError, ValueError) as error:
      raise _unreachable('Dask scheduler', address, error) from error
    self.host = _host(self._client.scheduler.address)
    self._executor = self._client.get_executor(pure=False)
    threads = sum(self._client.nthreads().values())
    if 0 < threads < count:
      logging.warning(
        'host.num_envs=%d episodes share %d threads of Dask workers, and the'
        ' rest wait for a place; start workers with more --nthreads.',
        count,
        threads,
      )

  def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future:
    return self._executor.submit(fn, *args)

  def close(self) -> None:
    self._client.close()
    if self._cluster is not None:
      self._cluster.close()


class RayExecutor:
  """Tasks of Ray, spread over its nodes; an episode is a process there."""

  _lock = threading.Lock()  # of the two below
  _open = 0  # executors of this process
  _ours = False  # they have started Ray

  def __init__(self, address: str, count: int):
    """Connects, or starts Ray on this machine where none is named.

    Args:
      address: 'HOST:PORT', 'auto' or 'ray://HOST:PORT'; '': RAY_ADDRESS, if
        it is set
      count: episodes under way; Ray starts a process for each

    Raises:
      ValueError: it is not installed, or no cluster answers.
    """
    del count  # episodes wait more than they compute, and reserve no CPU
    check_package('ray')
    self._ray = importlib.import_module('ray')
    address = address or os.environ.get('RAY_ADDRESS', 'local')
    with RayExecutor._lock:
      if not self._ray.is_initialized():
        _knock('Ray cluster', address)
        try:
          self._ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
          raise _unreachable('Ray cluster', address, error) from error
        RayExecutor._ours = True
      RayExecutor._open += 1
    self.host = LOOPBACK
    if address.startswith('ray://'):
      self.host = _host(address)
    elif address != 'local' or not RayExecutor._ours:
      context = self._ray.get_runtime_context()
      self.host = _host(f'//{context.gcs_address}')
    self._remote: dict[Callable, Any] = {}

  def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future:
    ray = self._ray
    if fn not in self._remote:
      # No whole core each: most of an environment's time is spent waiting. A
      # lost task is not for Ray to try again.
      self._remote[fn] = ray.remote(
        num_cpus=0, max_retries=0, scheduling_strategy='SPREAD'
      )(fn)
    task = self._remote[fn].remote(*args)
    future: Future = Future()

    def end(done: Future) -> None:
      with contextlib.suppress(InvalidStateError):  # it was cancelled
        if (error := done.exception()) is not None:
          future.set_exception(error)
        else:
          future.set_result(done.result())

    def stop(done: Future) -> None:
      if done.cancelled():
        ray.cancel(task, force=True)

    future.add_done_callback(stop)
    task.future().add_done_callback(end)
    return future

  def close(self) -> None:
    with RayExecutor._lock:
      RayExecutor._open -= 1
      if RayExecutor._ours and not RayExecutor._open:
        RayExecutor._ours = False
        self._ray.shutdown()


_PACKAGES = {'dask': 'distributed', 'ray': 'ray'}
# By host.worker, made of host.cluster and the episodes under way.
CLUSTERS: dict[str, Callable[[str, int], Executor]] = {
  'dask': DaskExecutor,
  'ray': RayExecutor,
}


def check_package(worker: str) -> None:
  """Checks that the package of a cluster is installed.

  Args:
    worker: value of host.worker; any that is not a cluster's passes

  Raises:
    ValueError: it is not.
  """
  package = _PACKAGES.get(worker)
  if package is not None and importlib.util.find_spec(package) is None:
    raise ValueError(
      f'host.worker={worker!r} needs the package {package}, which is not'
      f" installed; run {install.command(worker)}, or use 'process'"
    )


def local_address(host: str) -> str:
  """Returns the address of this machine from which it reaches a host."""
  try:
    (family, kind, proto, _, address), *_ = socket.getaddrinfo(
      host, 9, type=socket.SOCK_DGRAM
    )
    with socket.socket(family, kind, proto) as probe:
      probe.connect(address)  # of datagrams: only looks up the route
      return probe.getsockname()[0]
  except OSError:
    return LOOPBACK


def _knock(what: str, address: str) -> None:
  """Refuses a port where nothing listens; Ray would try it for minutes."""
  try:
    parts = urllib.parse.urlsplit(
      address if '//' in address else f'//{address}'
    )
    if parts.hostname and parts.port:
      where = parts.hostname, parts.port
      socket.create_connection(where, timeout=_CONNECT).close()
  except (OSError, ValueError) as error:
    raise _unreachable(what, address, error) from error


def _unreachable(what: str, address: str, error: Exception) -> ValueError:
  return ValueError(
    f'host.cluster must be the address of a running {what}, got'
    f' {address!r} ({error})'
  )


def _host(address: str) -> str:
  return urllib.parse.urlsplit(address).hostname or LOOPBACK
