"""Multi-process runs: joining, and exchange of objects between processes.

Every process runs the same program over one global mesh (`jax.distributed`).
Its index comes from the flags, else from JAX's environment variables:
JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID.
"""

import os
import pickle
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from agentrl.runtime.preemption import Stopped

Found = TypeVar('Found')


class ProcessInfo(NamedTuple):
  """One of the processes of a run."""

  coordinator: str  # HOST:PORT of process 0
  count: int  # type: ignore[assignment]
  index: int  # type: ignore[assignment]


def process_info(
  coordinator: str | None,
  count: int | None,
  index: int | None,
  environ: Mapping[str, str] = os.environ,
) -> ProcessInfo | None:
  """Returns this process's place; None for a single process.

  Raises: ValueError if it is incomplete or invalid.
  """
  settings = {
    'coordinator': coordinator or environ.get('JAX_COORDINATOR_ADDRESS'),
    'processes': _number('JAX_NUM_PROCESSES', count, environ),
    'process': _number('JAX_PROCESS_ID', index, environ),
  }
  missing = [name for name, value in settings.items() if value in (None, '')]
  if len(missing) == len(settings):
    return None
  if missing:
    raise ValueError(
      f'--{missing[0]} must be set: a run of several processes needs'
      ' --coordinator=HOST:PORT, --processes and --process'
    )
  info = ProcessInfo(*settings.values())
  if not re.fullmatch(r'.+:\d+', info.coordinator):
    raise ValueError(
      '--coordinator must be HOST:PORT of process 0, such as 10.0.0.1:1234,'
      f' got {info.coordinator!r}'
    )
  if not 0 <= info.index < info.count:
    raise ValueError(
      f'--process must be from 0 to {info.count - 1}, got {info.index} of'
      f' --processes={info.count}'
    )
  return info


def _number(name: str, value: int | None, environ: Mapping[str, str]):
  """Returns the value, else reads the environment variable."""
  text = environ.get(name)
  if value is not None or not text:
    return value
  if not text.isdecimal():
    raise ValueError(f'{name} must be a number, got {text!r}')
  return int(text)


def join(info: ProcessInfo | None) -> None:
  """Waits for the other processes; call it before any other use of JAX."""
  if info is None:
    return
  jax.distributed.initialize(info.coordinator, info.count, info.index)


def first() -> bool:
  """Returns whether this process writes for all."""
  return jax.process_index() == 0


def share(n: int) -> range:
  """Returns which of n items belong to this process."""
  count, index = jax.process_count(), jax.process_index()
  return range(n * index // count, n * (index + 1) // count)


def allgather_objects(do: Callable[[], Found]) -> list[Found]:
  """Runs `do` in every process and returns all results to each.

  Every process must call it the same number of times. Results are pickled.

  Raises:
    Stopped: in all processes if raised in one. A notice may reach one machine,
      or several at different steps, but all must save at the same step.
    RuntimeError: another process raised anything else.
  """
  if jax.process_count() == 1:
    return [do()]
  result = error = None
  try:
    result = do()
  except Exception as raised:
    error = raised
  fault = error and (isinstance(error, Stopped), str(error))
  text = np.frombuffer(pickle.dumps((result, fault)), np.uint8)
  sizes = multihost_utils.process_allgather(np.int64(text.size))
  text = np.pad(text, (0, sizes.max() - text.size))
  rows = multihost_utils.process_allgather(text)
  # Only the processes of this run communicate here.
  gathered = [
    pickle.loads(x[:size].tobytes())
    for x, size in zip(rows, sizes, strict=True)
  ]
  if error:
    raise error
  wrong = {i: x for i, (_, x) in enumerate(gathered) if x}
  for i, (stopped, text) in wrong.items():
    if not stopped:
      raise RuntimeError(f'process {i} failed: {text}')
  if wrong:
    raise Stopped('a notice to another process')
  return [x for x, _ in gathered]
