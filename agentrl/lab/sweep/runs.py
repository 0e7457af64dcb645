"""Runs of a sweep: their plan, their progress, their results."""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.configs import stages
from agentrl.configs.config import Config
from agentrl.lab.sweep import grid, local
from agentrl.log import metrics
from agentrl.run import config_file, seed_axis
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import validate
from agentrl.runtime import compile_cache, storage

DONE = 'summary.txt'  # what train writes last
SHOWN = 'eval/success'
CACHE = os.path.join('.cache', 'jax')  # below the folder of the sweep
REPORT_SECONDS = 60.0  # between lines of progress where there is no terminal


class SweepRun(NamedTuple):
  name: str
  experiment: str  # of --config
  changes: dict
  config: Config
  workdir: str
  job: local.Job


def expand(config: str, grids: Sequence[str], seeds: int) -> list[dict]:
  """Lists the changes of every run: by config's `sweep`, --grid and --seeds."""
  module = load(config.partition(':')[0])
  sweep = module.sweep if 'sweep' in vars(module) else None
  return grid.expand(sweep, [grid.axis(text) for text in grids], seeds)


def plan(config: str, runs, workdir: str) -> list[SweepRun]:
  """Plans and checks every run, before any of them starts."""
  return [planned(grid.name_of(x), config, x, workdir) for x in runs]


def planned(name: str, config: str, changes, workdir: str) -> SweepRun:
  """Returns one run of experiments.train in workdir/name, checked."""
  there = os.path.join(workdir, name)
  try:
    c = validate.config(config_file.change(config_file.load(config), changes))
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
  return SweepRun(name, config, changes, c, there, job)


load = config_file.load_module  # of a config or a study


def cache(workdir: str) -> dict[str, str]:
  """Returns variables under which a sweep's runs share what they compile.

  A run that differs in its seed only compiles nothing anew. None where the user
  has chosen a folder: its limit is the user's too, and JAX can write nothing
  into a folder with a limit that was first used without one.
  """
  if compile_cache.FOLDER in os.environ:
    return {}
  return compile_cache.variables(os.path.join(workdir, CACHE))


def finished(run: SweepRun) -> bool:
  return os.path.exists(os.path.join(run.workdir, DONE))


def groups(plan: Sequence[SweepRun], most: int) -> list[list[SweepRun]]:
  """Groups runs that differ in seed or init only, at most `most` in each."""
  alike: dict[str, list[SweepRun]] = {}
  for r in plan:
    where, rest = os.path.dirname(r.workdir), grid.name_of(_shared(r.changes))
    key = f'{where} {r.experiment} {rest} {bool(r.config.init)}'
    alike.setdefault(key, []).append(r)
  return [
    runs[i : i + most]
    for runs in alike.values()
    for i in range(0, len(runs), most)
  ]


def _shared(changes: dict) -> dict:
  return {k: v for k, v in changes.items() if k not in seed_axis.FREE}


def _together(runs: Sequence[SweepRun]) -> local.Job:
  """Returns the command of runs in one process; experiments.train for one."""
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
    *(f'--config.{path}={x}' for path, x in _shared(first.changes).items()),
  )
  return first.job._replace(command=command)


def run(
  plan: Sequence[SweepRun], places: int, together: int = 1, runner=None
) -> dict[str, int]:
  """Runs what is not finished; {name: exit status} of what ran.

  Args:
    together: runs that go into one process, if they differ in seed or init only
    runner: in place of local.run
  """
  left = [r for r in plan if not finished(r)]
  print(f'{len(plan)} runs, {len(plan) - len(left)} finished before')
  parts = {runs[0].name: runs for runs in groups(left, together)}
  for runs in parts.values():
    if len(runs) > 1:
      seed_axis.check([r.config for r in runs])
  exit_codes: dict[str, int] = {}
  reported = -float('inf')

  def look(running, done):
    nonlocal reported
    for name in done.keys() - exit_codes.keys():
      exit_codes[name] = done[name]
      how = 'finished' if not done[name] else f'failed ({done[name]})'
      print(f'{how}: {" ".join(r.name for r in parts[name])}', flush=True)
    terminal = sys.stderr.isatty()
    if terminal or (running and time.monotonic() > reported + REPORT_SECONDS):
      reported = time.monotonic()
      now = ', '.join(f'{n} {_at(plan, n)}' for n in running)
      text = f'{len(done)}/{len(parts)} done; step of {now}'
      text = f'\r{text}\033[K' if terminal else f'{text}\n'
      print(text, end='', file=sys.stderr, flush=True)

  jobs = [_together(runs) for runs in parts.values()]
  statuses = (runner or local.run)(jobs, places, look)
  for name, runs in parts.items():
    if statuses[name]:
      log = runs[0].job.log
      print(f'{name} failed; its output is in {log}', file=sys.stderr)
  return {r.name: statuses[name] for name, x in parts.items() for r in x}


def _at(plan: Sequence[SweepRun], name: str) -> str:
  """Returns the progress of a run: step of all steps."""
  r = next(r for r in plan if r.name == name)
  path = os.path.join(r.workdir, 'metrics.jsonl')
  try:
    rows = metrics.read(path) if os.path.exists(path) else []
  except (OSError, ValueError):
    rows = []  # its own process reports the fault and repairs it
  step = rows[-1]['step'] if rows else 0
  whole = sum(plan.steps for plan in stages.plans(r.config))
  return f'{step}/{whole}'


def results(plan: Sequence[SweepRun]) -> list[dict]:
  """Returns every finished run: name, changes, its held-out rows in order."""
  out = []
  for r in plan:
    if finished(r):
      rows = metrics.read(os.path.join(r.workdir, 'metrics.jsonl'))
      held = [row for row in rows if row['phase'] == 'eval']
      out.append({'name': r.name, 'changes': dict(r.changes), 'eval': held})
  return out


def table(plan: Sequence[SweepRun]) -> str:
  """Writes held-out success before and after, also beside the runs."""
  rows = results(plan)
  path = os.path.join(os.path.dirname(plan[0].workdir), 'sweep.json')
  storage.write(path, json.dumps(rows, indent=2))
  width = max(len(r.name) for r in plan)
  lines = [f'{"run":<{width}}  before   after']
  for x in rows:
    first, last = (x['eval'][i][SHOWN] for i in (0, -1))
    lines.append(f'{x["name"]:<{width}}  {first:6.1%}  {last:6.1%}')
  lines += [f'{r.name:<{width}}  not finished' for r in plan if not finished(r)]
  return '\n'.join([*lines, f'written: {path}'])
