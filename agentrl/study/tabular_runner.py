"""The runs of a comparison where policies are tables: many seeds at once."""

import json
import os
import pathlib
import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from agentrl.log import metrics
from agentrl.study.execute import Ask, Ran, Runner
from agentrl.study.spec import Arm, Study
from agentrl.sweep import grid
from agentrl.sweep import runs as sweep_runs
from agentrl.tabular import build, train


def runner(s: Study, workdir: str) -> Runner:
  """Runs of `tabular.curves`; all rates and seeds of an arm are one program.

  The study's changes, and then an environment's, are arguments of `curves`:
  world, iterations, settings, ... What is done is kept below workdir.
  """
  arms = {a.name: a for a in s.arms}

  def run(asks: Sequence[Ask]) -> dict[Ask, Ran]:
    programs = defaultdict(list)
    for a in asks:
      programs[a.env, a.arm, a.tuning].append(a)
    found = {}
    for i, ((env, arm, tuning), wanted) in enumerate(programs.items()):
      rates = sorted({a.rate for a in wanted})
      seeds = sorted({a.seed for a in wanted})
      name = _name(env, arm, tuning, rates)
      path = os.path.join(workdir, name)
      told = _kept(path, seeds)
      if told is None:
        told = _play(s, arms[arm], env, rates, seeds)
        _keep(path, told)
        seconds = told['seconds']
        print(f'{i + 1}/{len(programs)} {name} {seconds:.1f} s', flush=True)
      for a in wanted:
        found[a] = _ran(told, rates.index(a.rate), seeds.index(a.seed))
    return found

  return run


def check_all(s: Study) -> None:
  """A mistake in an arm is told before any run."""
  for arm in s.arms:
    try:
      build.fits(config(arm))
    except ValueError as error:
      raise ValueError(f'arm {arm.name}: {error}') from error


def config(arm: Arm) -> ConfigDict:
  """The arm's config, its rates in units of the one asked for."""
  path, _, arg = arm.config.partition(':')
  c = sweep_runs.load(path).get_config(arg)
  return grid.change(c, {**arm.changes, **arm.rates})


def _name(env: str, arm: str, tuning: bool, rates: Sequence[float]) -> str:
  kind = 'tuning' if tuning else 'pairs'
  at = '_'.join(f'{rate:g}' for rate in rates)
  return os.path.join(env, kind, arm, f'{at}.json')


def _play(s: Study, arm: Arm, env: str, rates, seeds) -> dict:
  """Curves [R, S, I + 1] and what is told [R, S], as JSON."""
  start = time.monotonic()
  arguments = {**s.changes, **s.envs[env].changes}
  got = train.curves(
    config(arm),
    rates=rates,
    seeds=seeds,
    salt=arm.salt,
    **arguments,
  )
  return {
    'seeds': seeds,
    'tokens': (arguments.get('size') or build.Size()).tokens,
    'env_steps': got['env_steps'].tolist(),
    'success': got['success'].tolist(),
    'told': {k: np.asarray(x).tolist() for k, x in got['told'].items()},
    'seconds': time.monotonic() - start,
  }


def _kept(path: str, seeds: Sequence[int]) -> dict | None:
  """What an earlier call kept, if it was of these seeds."""
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as f:
    told = json.load(f)
  return told if told['seeds'] == seeds else None


def _keep(path: str, told: dict) -> None:
  os.makedirs(os.path.dirname(path), exist_ok=True)
  metrics.replace(pathlib.Path(path), json.dumps(told))


def _ran(told: dict, rate: int, seed: int) -> Ran:
  steps, success = (
    np.asarray(told[name][rate][seed], np.float64)
    for name in ('env_steps', 'success')
  )
  runs = len(told['seeds']) * len(told['success'])
  return Ran(
    env_steps=steps,
    tokens=told['tokens'] * steps,  # a turn is so many of them
    success=success,
    moves=np.full(success.size, np.nan),
    seconds=told['seconds'] / runs,
    told={name: x[rate][seed] for name, x in told['told'].items()},
  )
