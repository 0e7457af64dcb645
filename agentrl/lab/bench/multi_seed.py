"""Seeds of one config as one process, against a process for each.

Whole sweeps are timed, from start to end, in turn: apart, together, apart, ...
`ratio` is the median time together over that apart, with the range over the
repeats. Caches of compiled programs: 'none'; 'cold', empty when a sweep
starts; 'warm', where a sweep before it has left what it compiled.
"""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from agentrl.lab.bench import timing
from agentrl.lab.bench.sizes import CACHES, Sweep
from agentrl.runtime import compile_cache


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
  """Returns {runs of a process: seconds of each repeat}"""
  os.makedirs(place, exist_ok=True)
  calls = {
    str(n): functools.partial(sweep, what, place, cache, n)
    for n in (1, what.seeds)
  }
  if cache == 'warm':
    for together, call in calls.items():
      if not os.path.exists(warm(place, int(together))):
        call()
  times = timing.interleaved(calls, what.repeats, warm=0)
  return {int(n): seconds for n, seconds in times.items()}


def warm(place: str, together: int) -> str:
  """Returns the folder of what such sweeps compile."""
  return os.path.join(place, f'warm{together}')


def sweep(what: Sweep, place: str, cache: str, together: int) -> None:
  """Runs one sweep in a new folder."""
  workdir = tempfile.mkdtemp(dir=place)
  env = dict(os.environ)
  env.pop(compile_cache.FOLDER, None)
  if cache == 'none':
    env['JAX_ENABLE_COMPILATION_CACHE'] = 'false'
  if cache == 'warm':
    env |= compile_cache.variables(warm(place, together))
  command = [
    sys.executable,
    '-m',
    'agentrl.experiments.sweep',
    f'--workdir={workdir}',
    f'--config={what.config}',
    f'--seeds={what.seeds}',
    f'--together={together}',
    f'--jobs={what.jobs if together == 1 else 1}',
    *(f'--grid={x}' for x in what.grid),
  ]
  subprocess.run(command, env=env, check=True, capture_output=True)


def table(cache: str, times: dict[int, list[float]]) -> list[str]:
  apart, together = times.values()
  ratio = timing.ratio(together, apart)
  return [
    f'cache {cache}: ratio {ratio.median:.2f}'
    f' [{ratio.low:.2f}, {ratio.high:.2f}]',
    *(
      f'  {name:<8} {timing.spread(x).median:6.1f} s '
      f' ({" ".join(f"{v:.1f}" for v in x)})'
      for name, x in (('apart', apart), ('together', together))
    ),
  ]
