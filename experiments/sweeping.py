"""The runs of a sweep: what they are, how far they are, what came out."""

import json
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl import metrics
from experiments import check, folder, pool, space

DONE = 'summary.txt'  # what train writes last
SHOWN = 'eval/success'
CACHE = os.path.join('.cache', 'jax')  # below the folder of the sweep
COMPILED = 0.3  # seconds that a program took to compile, if it is kept


class Run(NamedTuple):
  name: str
  changes: dict
  config: ConfigDict
  workdir: str
  job: pool.Job


def plan(module, arg, config: str, runs, workdir: str) -> list[Run]:
  """Every run, checked: a mistake in one is told before any of them starts."""
  out = []
  for changes in runs:
    name = space.name_of(changes)
    there = os.path.join(workdir, name)
    try:
      c = space.change(module.get_config(arg), changes)
      check.config(c)
      folder.same_config(c, there)
    except ValueError as error:
      raise ValueError(f'run {name}: {error}') from error
    out.append(Run(name, changes, c, there, _job(name, config, changes, there)))
  return out


def _job(name: str, config: str, changes, workdir: str) -> pool.Job:
  command = (
    *(sys.executable, '-m', 'experiments.train'),
    f'--config={config}',
    f'--workdir={workdir}',
    *(f'--config.{path}={value}' for path, value in changes.items()),
  )
  log = os.path.join(workdir, 'log.txt')
  return pool.Job(name, command, log, cache(os.path.dirname(workdir)))


def cache(workdir: str) -> dict[str, str]:
  """Variables under which the runs of a sweep share what they compile.

  A run that differs in its seed only compiles nothing anew.
  """
  return {
    'JAX_COMPILATION_CACHE_DIR': os.path.join(workdir, CACHE),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': str(COMPILED),
  }


def finished(run: Run) -> bool:
  return os.path.exists(os.path.join(run.workdir, DONE))


def run(plan: Sequence[Run], places: int) -> dict[str, int]:
  """Runs what is not finished; {name: exit status} of what ran."""
  left = [r for r in plan if not finished(r)]
  print(f'{len(plan)} runs, {len(plan) - len(left)} finished before')
  told: dict[str, int] = {}

  def look(running, done):
    for name in done.keys() - told.keys():
      told[name] = done[name]
      how = 'finished' if not done[name] else f'failed ({done[name]})'
      print(f'{how}: {name}', flush=True)
    if sys.stderr.isatty():
      now = ', '.join(f'{n} {_at(plan, n)}' for n in running)
      print(f'\r{len(done)}/{len(left)} done; {now}\033[K', end='',
            file=sys.stderr, flush=True)  # fmt: skip

  statuses = pool.run([r.job for r in left], places, look)
  for r in left:
    if statuses[r.name]:
      print(f'{r.name} failed; its output is in {r.job.log}', file=sys.stderr)
  return statuses


def _at(plan: Sequence[Run], name: str) -> str:
  """How far a run is: step of all steps."""
  r = next(r for r in plan if r.name == name)
  path = os.path.join(r.workdir, 'metrics.jsonl')
  rows = metrics.read(path) if os.path.exists(path) else []
  step = rows[-1]['step'] if rows else 0
  whole = r.config.steps + (0 if r.config.init else r.config.sft.steps)
  return f'{step}/{whole}'


def results(plan: Sequence[Run]) -> list[dict]:
  """Of every finished run: name, changes, its held-out rows in order."""
  out = []
  for r in plan:
    if finished(r):
      rows = metrics.read(os.path.join(r.workdir, 'metrics.jsonl'))
      held = [row for row in rows if row['phase'] == 'eval']
      out.append({'name': r.name, 'changes': dict(r.changes), 'eval': held})
  return out


def table(plan: Sequence[Run]) -> str:
  """Held-out success before and after; also written beside the runs."""
  found = results(plan)
  path = os.path.join(os.path.dirname(plan[0].workdir), 'sweep.json')
  with open(path + '.new', 'w', encoding='utf-8') as f:
    json.dump(found, f, indent=2)
  os.replace(path + '.new', path)
  width = max(len(r.name) for r in plan)
  lines = [f'{"run":<{width}}  before   after']
  for x in found:
    first, last = (x['eval'][i][SHOWN] for i in (0, -1))
    lines.append(f'{x["name"]:<{width}}  {first:6.1%}  {last:6.1%}')
  lines += [f'{r.name:<{width}}  not finished' for r in plan if not finished(r)]
  return '\n'.join([*lines, f'written: {path}'])
