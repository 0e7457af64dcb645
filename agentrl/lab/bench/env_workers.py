"""Benchmark of where environments live: start-up, and calls per second.

Environments that answer at once, so that what is timed is the way to them and
back: the first reset of each worker from the opening of the pool on, resets,
and steps with all workers asked at the same time. A place whose package is not
installed is left out.
"""

import dataclasses
import time
from collections.abc import Iterator
from typing import ClassVar

from agentrl.env.base import HostTask, Step
from agentrl.lab.bench.sizes import EnvWorkersBenchSize
from agentrl.rollout.workers.pool import EnvWorkerPool, env_workers

_WAIT = 600.0  # seconds for an answer at most


@dataclasses.dataclass(frozen=True)
class Echo:
  """Environments that repeat what they hear, in the worker of the cluster."""

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def name(self) -> str:
    return 'echo'

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    yield from (HostTask({}, (), f'{split} {i}') for i in range(count))

  def env(self) -> 'EchoEnv':
    return EchoEnv()


class EchoEnv:
  """Repeats its messages."""

  def reset(self, task, seed: int) -> str:
    return str(seed)

  def step(self, message: str) -> Step:
    return Step(message)

  def close(self) -> None:
    pass


def reset_all(workers: EnvWorkerPool) -> float:
  """Returns the seconds until all have begun a task."""
  start = time.perf_counter()
  for call in [workers[i].reset({}, i) for i in range(len(workers))]:
    call.result(_WAIT)
  return time.perf_counter() - start


def step_all(workers: EnvWorkerPool, turns: int, message: str) -> float:
  """Returns the seconds of some turns of all."""
  start = time.perf_counter()
  for _ in range(turns):
    for call in [workers[i].step(message) for i in range(len(workers))]:
      call.result(_WAIT)
  return time.perf_counter() - start


def run(size: EnvWorkersBenchSize) -> None:
  """Prints a line for each place."""
  print(f'{size.count} workers, messages of {size.characters} characters')
  message, steps = 'x' * size.characters, size.count * size.turns
  for place in size.places:
    start = time.perf_counter()
    try:
      pool = env_workers(Echo(), size.count, worker=place)
    except ValueError as error:
      print(f'  {place:<8} left out: {error}')
      continue
    with pool as workers:
      reset_all(workers)
      first = time.perf_counter() - start
      again = min(reset_all(workers) for _ in range(size.repeats))
      took = min(
        step_all(workers, size.turns, message) for _ in range(size.repeats)
      )
    print(
      f'  {place:<8} {first:6.2f} s to the first observations,'
      f' {size.count / again:8.0f} resets/s, {steps / took:8.0f} steps/s',
      flush=True,
    )
