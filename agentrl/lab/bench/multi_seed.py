"""Seeds of one config as one process, against a process for each.

Whole sweeps are timed, from start to end, in turn: apart, together, apart, ...
`ratio` is the median time together over that apart, with the range over the
repeats. Caches of compiled programs: 'none'; 'cold', empty when a sweep
starts; 'warm', where a sweep before it has left what it compiled.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.runtime import compile_cache

CACHES = ['none', 'cold', 'warm']


class Sweep(NamedTuple):
  """The sweep that is timed."""

  config: str = 'configs/grpo.py:tiny'
  grid: tuple[str, ...] = ()  # PATH=VALUE, as for sweep
  seeds: int = 5
  jobs: int = 2  # processes at a time
  repeats: int = 3  # of each


def run(what: Sweep, caches: Sequence[str], place: str | None) -> None:
  """Prints a table for each cache.

  Args:
    place: folder to keep; None for one that is removed
  """
  if wrong := [name for name in caches if name not in CACHES]:
    raise ValueError(f'--caches has {wrong}; choose from {CACHES}')
  with tempfile.TemporaryDirectory() as folder:
    for cache in caches:
      times = compare(what, place or folder, cache)
      print('\n'.join(table(cache, times)), flush=True)


def compare(what: Sweep, place: str, cache: str) -> dict[int, list[float]]:
  """{runs of a process: seconds of each repeat}"""
  os.makedirs(place, exist_ok=True)
  times = {1: [], what.seeds: []}
  if cache == 'warm':
    for together in times:
      if not os.path.exists(warm(place, together)):
        sweep(what, place, cache, together)
  for _ in range(what.repeats):
    for together in times:
      times[together].append(sweep(what, place, cache, together))
  return times


def warm(place: str, together: int) -> str:
  """The folder of what such sweeps compile."""
  return os.path.join(place, f'warm{together}')


def sweep(what: Sweep, place: str, cache: str, together: int) -> float:
  """Seconds of one sweep in a new folder."""
  workdir = tempfile.mkdtemp(dir=place)
  env = dict(os.environ)
  env.pop(compile_cache.FOLDER, None)
  if cache == 'none':
    env['JAX_ENABLE_COMPILATION_CACHE'] = 'false'
  if cache == 'warm':
    env |= compile_cache.variables(warm(place, together))
  command = (
    *(sys.executable, '-m', 'agentrl.experiments.sweep'),
    *(f'--workdir={workdir}', f'--config={what.config}'),
    *(f'--seeds={what.seeds}', f'--together={together}'),
    *(f'--jobs={what.jobs if together == 1 else 1}',),
    *(f'--grid={x}' for x in what.grid),
  )
  start = time.monotonic()
  subprocess.run(command, env=env, check=True, capture_output=True)
  return time.monotonic() - start


def table(cache: str, times: dict[int, list[float]]) -> list[str]:
  apart, together = times.values()
  pairs = [b / a for a, b in zip(apart, together, strict=True)]
  ratio = statistics.median(together) / statistics.median(apart)
  show = lambda x: ' '.join(f'{v:.1f}' for v in x)  # noqa: E731
  return [
    f'cache {cache}: ratio {ratio:.2f} [{min(pairs):.2f}, {max(pairs):.2f}]',
    f'  apart    {statistics.median(apart):6.1f} s  ({show(apart)})',
    f'  together {statistics.median(together):6.1f} s  ({show(together)})',
  ]
