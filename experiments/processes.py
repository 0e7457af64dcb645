"""A run that several processes share, one or more of them on each host.

Every process runs the same program over one global mesh (`jax.distributed`).
Which it is comes from the flags, else from the environment that JAX names:
JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from agentrl.interrupt import Stopped


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


def together(asked: Callable[[], None]) -> Callable[[], None]:
  """Raises Stopped in every process once `asked` does in any of them.

  A notice reaches one machine, or several at different steps; a state can only
  be saved by all at one. Every process must call it equally often.
  """
  if jax.process_count() == 1:
    return asked

  def agreed() -> None:
    reason = None
    try:
      asked()
    except Stopped as heard:
      reason = heard
    if np.any(multihost_utils.process_allgather(np.bool_(reason is not None))):
      raise reason or Stopped('a notice to another process')

  return agreed
