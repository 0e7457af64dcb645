"""Multi-process runs: joining, and exchange of objects between processes.

Every process runs the same program over one global mesh (`jax.distributed`).
Which it is comes from the flags, else from the environment that JAX names:
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
  """One process among all."""

  coordinator: str  # HOST:PORT of process 0
  count: int  # type: ignore[assignment]
  index: int  # type: ignore[assignment]


def process_info(
  coordinator: str | None,
  count: int | None,
  index: int | None,
  environ: Mapping[str, str] = os.environ,
) -> ProcessInfo | None:
  """This process's place, None where it is alone.

  Raises: ValueError where only a part of it is given, or it is invalid.
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
      f'--{missing[0]} is missing: a run of several processes needs'
      ' --coordinator=HOST:PORT, --processes and --process'
    )
  info = ProcessInfo(*settings.values())
  if not re.fullmatch(r'.+:\d+', info.coordinator):
    raise ValueError(
      f'--coordinator={info.coordinator!r} is not HOST:PORT; name the host of'
      ' process 0 and a free port, such as 10.0.0.1:1234'
    )
  if not 0 <= info.index < info.count:
    raise ValueError(
      f'--process={info.index} is not one of --processes={info.count}; count'
      f' from 0 to {info.count - 1}'
    )
  return info


def _number(name: str, value: int | None, environ: Mapping[str, str]):
  """Returns the value, or else that of the environment variable."""
  text = environ.get(name)
  if value is not None or not text:
    return value
  if not text.isdecimal():
    raise ValueError(f'{name}={text!r} is not a number; set it to one')
  return int(text)


def join(info: ProcessInfo | None) -> None:
  """Waits for the other processes; before anything else is asked of JAX."""
  if info is None:
    return
  jax.distributed.initialize(info.coordinator, info.count, info.index)


def first() -> bool:
  """Returns whether this process is the one that writes for all."""
  return jax.process_index() == 0


def share(n: int) -> range:
  """Returns which of n things belong to this process."""
  count, index = jax.process_count(), jax.process_index()
  return range(n * index // count, n * (index + 1) // count)


def allgather_objects(do: Callable[[], Found]) -> list[Found]:
  """Returns the result of `do` in every process, to all of them.

  Every process must call it equally often. What it gives can be pickled.

  Raises:
    Stopped: in all of them where one does. A notice reaches one machine, or
      several at different steps; a state can only be saved by all at one.
    RuntimeError: another process raised what is no Stopped.
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
