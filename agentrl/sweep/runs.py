"""The runs of a sweep: what they are, how far they are, what came out."""

import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl.log import metrics
from agentrl.run import config_file, run_seeds, validate
from agentrl.run import workdir as workdir_lib
from agentrl.sweep import grid, local

DONE = 'summary.txt'  # what train writes last
SHOWN = 'eval/success'
CACHE = os.path.join('.cache', 'jax')  # below the folder of the sweep
COMPILED = 0.3  # seconds that a program took to compile, if it is kept


class Run(NamedTuple):
  name: str
  experiment: str  # of --config
  changes: dict
  config: ConfigDict
  workdir: str
  job: local.Job


def expand(config: str, grids: Sequence[str], seeds: int) -> list[dict]:
  """The changes of every run: by the config's `sweep`, --grid and --seeds."""
  module = load(config.partition(':')[0])
  sweep = module.sweep if 'sweep' in vars(module) else None
  return grid.expand(sweep, [grid.axis(text) for text in grids], seeds)


def plan(config: str, runs, workdir: str) -> list[Run]:
  """Every run, checked: a mistake in one is told before any of them starts."""
  names = [grid.name_of(changes) for changes in runs]
  return [
    planned(name, config, changes, workdir)
    for name, changes in zip(names, runs, strict=True)
  ]


def planned(name: str, config: str, changes, workdir: str) -> Run:
  """One run of experiments.train in workdir/name, checked."""
  there = os.path.join(workdir, name)
  try:
    c = grid.change(config_file.load(config), changes)
    validate.config(c)
    workdir_lib.same_config(c, there)
  except ValueError as error:
    raise ValueError(f'run {name}: {error}') from error
  command = (
    *(sys.executable, '-m', 'agentrl.experiments.train'),
    f'--config={config}',
    f'--workdir={there}',
    *(f'--config.{path}={value}' for path, value in changes.items()),
  )
  log = os.path.join(there, 'log.txt')
  job = local.Job(name, command, log, cache(workdir))
  return Run(name, config, changes, c, there, job)


load = config_file.load_module  # of a config or a study


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


def groups(plan: Sequence[Run], most: int) -> list[list[Run]]:
  """Runs that differ in seed or init only, at most so many of them together."""
  alike: dict[str, list[Run]] = {}
  for r in plan:
    rest = {k: v for k, v in r.changes.items() if k not in run_seeds.FREE}
    where = os.path.dirname(r.workdir)
    key = f'{where} {r.experiment} {grid.name_of(rest)} {bool(r.config.init)}'
    alike.setdefault(key, []).append(r)
  return [
    runs[i : i + most]
    for runs in alike.values()
    for i in range(0, len(runs), most)
  ]


def _together(runs: Sequence[Run]) -> local.Job:
  """What runs them in one process; a single run is one of experiments.train."""
  first = runs[0]
  if len(runs) == 1:
    return first.job
  seeds = ','.join(str(r.config.seed) for r in runs)
  command = (
    *(sys.executable, '-m', 'agentrl.experiments.together'),
    f'--config={first.experiment}',
    f'--workdir={os.path.dirname(first.workdir)}',
    f'--seeds={seeds}',
    *(f'--folder={os.path.basename(r.workdir)}' for r in runs),
    *(f'--init={r.config.init}' for r in runs if r.config.init),
    *(
      f'--config.{path}={value}'
      for path, value in first.changes.items()
      if path not in run_seeds.FREE
    ),
  )
  return first.job._replace(command=command)


def run(
  plan: Sequence[Run], places: int, together: int = 1, runner=None
) -> dict[str, int]:
  """Runs what is not finished; {name: exit status} of what ran.

  Args:
    together: runs that go into one process, if they differ in seed or init only
    runner: in place of pool.run
  """
  left = [r for r in plan if not finished(r)]
  print(f'{len(plan)} runs, {len(plan) - len(left)} finished before')
  parts = {runs[0].name: runs for runs in groups(left, together)}
  for runs in parts.values():
    if len(runs) > 1:
      run_seeds.check([r.config for r in runs])
  told: dict[str, int] = {}

  def look(running, done):
    for name in done.keys() - told.keys():
      told[name] = done[name]
      how = 'finished' if not done[name] else f'failed ({done[name]})'
      print(f'{how}: {" ".join(r.name for r in parts[name])}', flush=True)
    if sys.stderr.isatty():
      now = ', '.join(f'{n} {_at(plan, n)}' for n in running)
      print(f'\r{len(done)}/{len(parts)} done; {now}\033[K', end='',
            file=sys.stderr, flush=True)  # fmt: skip

  jobs = [_together(runs) for runs in parts.values()]
  statuses = (runner or local.run)(jobs, places, look)
  for name, runs in parts.items():
    if statuses[name]:
      log = runs[0].job.log
      print(f'{name} failed; its output is in {log}', file=sys.stderr)
  return {r.name: statuses[name] for name, x in parts.items() for r in x}


def _at(plan: Sequence[Run], name: str) -> str:
  """How far a run is: step of all steps."""
  r = next(r for r in plan if r.name == name)
  path = os.path.join(r.workdir, 'metrics.jsonl')
  try:
    rows = metrics.read(path) if os.path.exists(path) else []
  except (OSError, ValueError):
    rows = []  # its own process says what is wrong, and repairs it
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
  metrics.replace(pathlib.Path(path), json.dumps(found, indent=2))
  width = max(len(r.name) for r in plan)
  lines = [f'{"run":<{width}}  before   after']
  for x in found:
    first, last = (x['eval'][i][SHOWN] for i in (0, -1))
    lines.append(f'{x["name"]:<{width}}  {first:6.1%}  {last:6.1%}')
  lines += [f'{r.name:<{width}}  not finished' for r in plan if not finished(r)]
  return '\n'.join([*lines, f'written: {path}'])
