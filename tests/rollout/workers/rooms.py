"""One environment in a worker: what went wrong in it, what is left of it."""

import atexit
import contextlib
import functools
import importlib.util
import os
import pathlib
import secrets
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl.rollout.workers.executors import FuturesExecutor
from agentrl.rollout.workers.pool import cluster_workers, env_workers
from agentrl.rollout.workers.replies import EnvError
from agentrl.runtime import install
from tests.rollout.workers import naughty

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
WAIT = 60  # seconds; what never comes fails, what is slow does not


def has(package: str) -> bool:
  return importlib.util.find_spec(package) is not None


DASK = pytest.mark.skipif(
  not has('distributed'), reason=f'needs {install.command("dask")}'
)
RAY = [
  pytest.mark.skipif(not has('ray'), reason=f'needs {install.command("ray")}'),
  pytest.mark.slow,  # it starts in seconds
]
CLUSTERS = [
  'futures',
  pytest.param('dask', marks=DASK),
  pytest.param('ray', marks=RAY),
]


@contextlib.contextmanager
def open_room(place='process', **settings):
  with open_workers(naughty.Family(**settings), 1, place) as them:
    yield them[0]


def open_workers(family, count, place):
  """In one cluster for all tests of a process, where it is one."""
  if place == 'futures':
    return cluster_workers(family, count, threads(8))
  if place == 'dask':
    return env_workers(family, count, worker='dask', cluster=dask_address())
  if place == 'ray':
    start_ray()
  return env_workers(family, count, worker=place)


def threads(count: int) -> FuturesExecutor:
  """A cluster whose workers are threads of this process."""
  return FuturesExecutor(lambda: ThreadPoolExecutor(count))


@functools.cache
def dask_address() -> str:
  import distributed

  cluster = distributed.LocalCluster(
    n_workers=2, threads_per_worker=4, dashboard_address='127.0.0.1:0'
  )
  atexit.register(cluster.close)
  return cluster.scheduler_address


@functools.cache
def start_ray() -> None:
  import ray

  own_ray_token()
  ray.init(address='local', num_cpus=2, log_to_driver=False)


def own_ray_token() -> None:
  """Ray would write one to the user's folder."""
  os.environ.setdefault('RAY_AUTH_TOKEN', secrets.token_hex(32))


def begin(room) -> list[str]:
  """The process, the number of the task in its environment, and the seed."""
  return room.reset({}, 7).result(WAIT).split()


def fault_of(future) -> EnvError:
  with pytest.raises(EnvError) as caught:
    future.result(WAIT)
  return caught.value


def process_states(group: int) -> str:
  """Of the processes in a group, by /proc."""
  out = ''
  for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
    with contextlib.suppress(OSError):
      state, _, its, *_ = stat.read_text().rpartition(')')[2].split()
      out += state if int(its) == group else ''
  return out


def is_gone(group: int) -> bool:
  """Soon: nobody runs; a zombie waits for the system's first process."""
  end = time.monotonic() + WAIT
  while set(process_states(group)) - {'Z'}:
    if time.monotonic() > end:
      return False
    time.sleep(0.01)
  return True


def start_program(code: str) -> subprocess.Popen:
  head = (
    f'import sys; sys.path[:0] = {[str(HERE), str(ROOT)]}\n'
    'import dataclasses, naughty, time\n'
    'from agentrl.rollout.workers.pool import env_workers\n'
  )
  return subprocess.Popen(
    [sys.executable, '-c', head + textwrap.dedent(code)],
    stdout=subprocess.PIPE,
  )
