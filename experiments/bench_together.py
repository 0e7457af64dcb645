"""Seeds of one config as one process, against a process for each.

  python -m experiments.bench_together --config=configs/grpo.py:tiny
  python -m experiments.bench_together --grid=steps=20 --caches=warm

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

from absl import flags

from experiments import cli

_CONFIG = flags.DEFINE_string('config', 'configs/grpo.py:tiny', 'A config.')
_GRID = flags.DEFINE_multi_string(
  'grid', [], 'PATH=VALUE, as for sweep; again.'
)
_SEEDS = flags.DEFINE_integer('seeds', 5, 'How many.', lower_bound=2)
_JOBS = flags.DEFINE_integer('jobs', 2, 'Processes at a time.', lower_bound=1)
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Of each.', lower_bound=1)
_PLACE = flags.DEFINE_string('place', None, 'Folder to keep; or none is.')
CACHES = ['none', 'cold', 'warm']
_CACHES = flags.DEFINE_list('caches', CACHES, 'Which.')


def main() -> None:
  wrong = [name for name in _CACHES.value if name not in CACHES]
  if wrong:
    raise ValueError(f'--caches has {wrong}; choose from {CACHES}')
  with tempfile.TemporaryDirectory() as place:
    for cache in _CACHES.value:
      times = compare(_PLACE.value or place, cache)
      print('\n'.join(table(cache, times)), flush=True)


def compare(place: str, cache: str) -> dict[int, list[float]]:
  """{runs of a process: seconds of each repeat}"""
  os.makedirs(place, exist_ok=True)
  times = {1: [], _SEEDS.value: []}
  if cache == 'warm':
    for together in times:
      if not os.path.exists(warm(place, together)):
        sweep(place, cache, together)
  for _ in range(_REPEATS.value):
    for together in times:
      times[together].append(sweep(place, cache, together))
  return times


def warm(place: str, together: int) -> str:
  """The folder of what such sweeps compile."""
  return os.path.join(place, f'warm{together}')


def sweep(place: str, cache: str, together: int) -> float:
  """Seconds of one sweep in a new folder."""
  workdir = tempfile.mkdtemp(dir=place)
  env = dict(os.environ)
  env.pop('JAX_COMPILATION_CACHE_DIR', None)
  if cache == 'none':
    env['JAX_ENABLE_COMPILATION_CACHE'] = 'false'
  if cache == 'warm':
    env['JAX_COMPILATION_CACHE_DIR'] = warm(place, together)
    env['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.3'
  command = (
    *(sys.executable, '-m', 'experiments.sweep', f'--workdir={workdir}'),
    *(f'--config={_CONFIG.value}', f'--seeds={_SEEDS.value}'),
    *(f'--jobs={_JOBS.value if together == 1 else 1}',),
    *(f'--together={together}', *(f'--grid={x}' for x in _GRID.value)),
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


if __name__ == '__main__':
  cli.run(main)
