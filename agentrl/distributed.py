"""A run that several processes share, one or more of them on each host.

Every process runs the same program over one global mesh (`jax.distributed`).
Which it is comes from the flags, else from the environment that JAX names:
JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID.
"""

import os
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from agentrl.preemption import Stopped

Found = TypeVar('Found')


class Place(NamedTuple):
  """One process among all."""

  coordinator: str  # HOST:PORT of process 0
  count: int
  index: int


def place(
  coordinator: str | None,
  count: int | None,
  index: int | None,
  environ: Mapping[str, str] = os.environ,
) -> Place | None:
  """This process's place, None where it is alone.

  Raises: ValueError where only a part of it is told, or it cannot be.
  """
  told = {
    'coordinator': coordinator or environ.get('JAX_COORDINATOR_ADDRESS'),
    'processes': _number('JAX_NUM_PROCESSES', count, environ),
    'process': _number('JAX_PROCESS_ID', index, environ),
  }
  missing = [name for name, value in told.items() if value in (None, '')]
  if len(missing) == len(told):
    return None
  if missing:
    raise ValueError(
      f'--{missing[0]} is missing: a run of several processes needs'
      ' --coordinator=HOST:PORT, --processes and --process'
    )
  found = Place(*told.values())
  if not re.fullmatch(r'.+:\d+', found.coordinator):
    raise ValueError(
      f'--coordinator={found.coordinator!r} is not HOST:PORT; name the host of'
      ' process 0 and a free port, such as 10.0.0.1:1234'
    )
  if not 0 <= found.index < found.count:
    raise ValueError(
      f'--process={found.index} is not one of --processes={found.count}; count'
      f' from 0 to {found.count - 1}'
    )
  return found


def _number(name: str, told: int | None, environ: Mapping[str, str]):
  """What was told, else what the environment says."""
  text = environ.get(name)
  if told is not None or not text:
    return told
  if not text.isdecimal():
    raise ValueError(f'{name}={text!r} is not a number; set it to one')
  return int(text)


def join(found: Place | None) -> None:
  """Waits for the other processes; before anything else is asked of JAX."""
  if found is None:
    return
  jax.distributed.initialize(found.coordinator, found.count, found.index)


def first() -> bool:
  """Whether this process is the one that writes for all."""
  return jax.process_index() == 0


def share(n: int) -> range:
  """Which of n things this process sees to."""
  count, index = jax.process_count(), jax.process_index()
  return range(n * index // count, n * (index + 1) // count)


def each(do: Callable[[], Found]) -> list[Found]:
  """What `do` gives in every process, told to all of them.

  Every process must call it equally often. What it gives can be pickled.

  Raises:
    Stopped: in all of them where one does. A notice reaches one machine, or
      several at different steps; a state can only be saved by all at one.
    RuntimeError: another process raised what is no Stopped.
  """
  if jax.process_count() == 1:
    return [do()]
  found = error = None
  try:
    found = do()
  except Exception as raised:
    error = raised
  told = _told((found, error and (isinstance(error, Stopped), str(error))))
  if error:
    raise error
  wrong = {i: x for i, (_, x) in enumerate(told) if x}
  for i, (stopped, text) in wrong.items():
    if not stopped:
      raise RuntimeError(f'process {i} failed: {text}')
  if wrong:
    raise Stopped('a notice to another process')
  return [x for x, _ in told]


def _told(x: Any) -> list[Any]:
  """Every process's x, in every process."""
  text = np.frombuffer(pickle.dumps(x), np.uint8)
  sizes = multihost_utils.process_allgather(np.int64(text.size))
  text = np.pad(text, (0, sizes.max() - text.size))
  # Nobody but the processes of this run speaks here.
  return [
    pickle.loads(row[:size].tobytes())
    for row, size in zip(
      multihost_utils.process_allgather(text), sizes, strict=True
    )
  ]
