"""Runs of a comparison with tabular policies: many seeds at once."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from agentrl import storage
from agentrl.run import config_file
from agentrl.study.execute import Runner, RunRequest, RunResult
from agentrl.study.spec import Arm, Study
from agentrl.sweep import runs as sweep_runs
from agentrl.tabular import build, train


def runner(s: Study, workdir: str) -> Runner:
  """Runs of `tabular.curves`; all rates and seeds of an arm are one program.

  The study's changes, and then an environment's, are arguments of `curves`:
  world, iterations, settings, ... What is done is kept below workdir.
  """
  arms = {a.name: a for a in s.arms}

  def run(asks: Sequence[RunRequest]) -> dict[RunRequest, RunResult]:
    programs = defaultdict(list)
    for a in asks:
      programs[a.env, a.arm, a.tuning].append(a)
    results = {}
    for i, ((env, arm, tuning), wanted) in enumerate(programs.items()):
      rates = sorted({a.rate for a in wanted})
      seeds = sorted({a.seed for a in wanted})
      at = '_'.join(f'{rate:g}' for rate in rates)
      kind = 'tuning' if tuning else 'pairs'
      name = os.path.join(env, kind, arm, f'{at}.json')
      path = os.path.join(workdir, name)
      curves = _kept(path, seeds)
      if curves is None:
        curves = _play(s, arms[arm], env, rates, seeds)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        storage.write(path, json.dumps(curves))
        seconds = curves['seconds']
        print(f'{i + 1}/{len(programs)} {name} {seconds:.1f} s', flush=True)
      for a in wanted:
        results[a] = _ran(curves, rates.index(a.rate), seeds.index(a.seed))
    return results

  return run


def check_all(s: Study) -> None:
  """Checks every arm before any run."""
  for arm in s.arms:
    try:
      build.fits(config(arm))
    except ValueError as error:
      raise ValueError(f'arm {arm.name}: {error}') from error


def config(arm: Arm) -> ConfigDict:
  """The arm's config, its rates in units of the one asked for."""
  path, _, arg = arm.config.partition(':')
  c = sweep_runs.load(path).get_config(arg)
  return config_file.change(c, {**arm.changes, **arm.rates})


def _play(s: Study, arm: Arm, env: str, rates, seeds) -> dict:
  """Curves [R, S, I + 1] and metrics [R, S], as JSON."""
  start = time.monotonic()
  arguments = {**s.changes, **s.envs[env].changes}
  got = train.curves(
    config(arm), rates=rates, seeds=seeds, salt=arm.salt, **arguments
  )
  return {
    'seeds': seeds,
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
