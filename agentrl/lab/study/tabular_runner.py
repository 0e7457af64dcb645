"""Runs of a comparison with tabular policies: many seeds at once."""

import functools
import json
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import NamedTuple

import jax
import numpy as np

from agentrl.configs.config import Config
from agentrl.lab.study.execute import Runner, RunRequest, RunResult
from agentrl.lab.study.spec import Arm, Study
from agentrl.lab.sweep import child, local
from agentrl.lab.sweep import runs as sweep_runs
from agentrl.lab.tabular import build, train
from agentrl.run import config_file
from agentrl.run.check import fields
from agentrl.runtime import storage


class ArmRuns(NamedTuple):
  """Runs of an arm in one world, which are one program.

  name: the file of their curves
  """

  name: str  # below the workdir
  env: str
  arm: str
  rates: list[float]
  seeds: list[int]


def runner(s: Study, workdir: str, places: int = 1) -> Runner:
  """Makes runs of `tabular.curves`; an arm's rates and seeds are one program.

  The study's changes, and then an environment's, are arguments of `curves`:
  world, iterations, settings, ... What is done is kept below workdir.

  Args:
    places: processes at a time; the numbers do not depend on it
  """

  def run(asks: Sequence[RunRequest]) -> dict[RunRequest, RunResult]:
    plan = programs(asks)
    unique = {p.name: p for p in plan.values()}
    curves = {}
    for name, p in unique.items():
      if there := _kept(os.path.join(workdir, name), p.seeds):
        curves[name] = there
    missing = [p for name, p in unique.items() if name not in curves]
    for i, (p, made) in enumerate(_made(s, missing, places)):
      path = os.path.join(workdir, p.name)
      os.makedirs(os.path.dirname(path), exist_ok=True)
      storage.write(path, json.dumps(made))
      curves[p.name] = made
      done = f'{i + 1}/{len(missing)} {p.name}'
      print(f'{done} {made["seconds"]:.1f} s', flush=True)
    return {
      a: _ran(curves[p.name], p.rates.index(a.rate), p.seeds.index(a.seed))
      for a, p in plan.items()
    }

  return run


def programs(asks: Sequence[RunRequest]) -> dict[RunRequest, ArmRuns]:
  """Names the program that each run is part of; equal for all of its runs."""
  together = defaultdict(list)
  for a in asks:
    together[a.env, a.arm, a.tuning].append(a)
  out = {}
  for (env, arm, tuning), wanted in together.items():
    rates = sorted({a.rate for a in wanted})
    at = '_'.join(f'{rate:g}' for rate in rates)
    kind = 'tuning' if tuning else 'pairs'
    name = os.path.join(env, kind, arm, f'{at}.json')
    seeds = sorted({a.seed for a in wanted})
    out |= dict.fromkeys(wanted, ArmRuns(name, env, arm, rates, seeds))
  return out


def _made(
  s: Study, todo: Sequence[ArmRuns], places: int
) -> Iterator[tuple[ArmRuns, dict]]:
  """Yields the curves of every program, in whichever order they are done."""
  places = min(places, len(todo))
  if places < 2:
    for p in todo:
      yield p, _play(s, p)
    return
  context = multiprocessing.get_context('spawn')
  cores = context.SimpleQueue()
  for mine in local.cores(places):
    cores.put(mine)
  begin = functools.partial(_begin, cores, os.getpid())
  pool = futures.ProcessPoolExecutor(places, context, begin)
  try:
    jobs = {pool.submit(_play, s, p): p for p in todo}
    for job in futures.as_completed(jobs):
      yield jobs[job], job.result()
  finally:
    pool.shutdown(cancel_futures=True)


def _begin(cores, parent: int) -> None:
  """Begins a process of the pool, on cores of its own."""
  child.begin(parent, cores.get())
  compile_little()


def compile_little() -> None:
  """Lowers optimization: programs are small, run once, and mostly compile."""
  jax.config.update('jax_disable_most_optimizations', True)


def check_all(s: Study) -> None:
  """Checks every arm before any run."""
  for arm in s.arms:
    try:
      build.fits(config(arm))
    except ValueError as error:
      raise ValueError(f'arm {arm.name}: {error}') from error


def config(arm: Arm) -> Config:
  """Returns the arm's config, its rates in units of the one asked for."""
  path, _, arg = arm.config.partition(':')
  c = sweep_runs.load(path).get_config(arg)
  return fields.read(config_file.change(c, {**arm.changes, **arm.rates}))


def _play(s: Study, p: ArmRuns) -> dict:
  """Returns curves [R, S, I + 1] and metrics [R, S], as JSON."""
  start, arm = time.monotonic(), s.arm(p.arm)
  arguments = {**s.changes, **s.envs[p.env].changes}
  got = train.curves(
    config(arm), rates=p.rates, seeds=p.seeds, salt=arm.salt, **arguments
  )
  return {
    'seeds': p.seeds,
    'tokens': (arguments.get('size') or build.TabularSize()).tokens,
    'env_steps': got['env_steps'].tolist(),
    'success': got['success'].tolist(),
    'told': {k: np.asarray(x).tolist() for k, x in got['told'].items()},
    'seconds': time.monotonic() - start,
  }


def _kept(path: str, seeds: Sequence[int]) -> dict | None:
  """Returns the curves of an earlier call, if they are of these seeds."""
  if not os.path.exists(path):
    return None
  curves = json.loads(storage.read(storage.path(path)))
  return curves if curves['seeds'] == seeds else None


def _ran(curves: dict, rate: int, seed: int) -> RunResult:
  steps, success = (
    np.asarray(curves[name][rate][seed], np.float64)
    for name in ('env_steps', 'success')
  )
  runs = len(curves['seeds']) * len(curves['success'])
  return RunResult(
    env_steps=steps,
    tokens=curves['tokens'] * steps,  # a turn is so many of them
    success=success,
    moves=np.full(success.size, np.nan),
    seconds=curves['seconds'] / runs,
    metrics={name: x[rate][seed] for name, x in curves['told'].items()},
  )
