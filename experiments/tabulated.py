"""The runs of a comparison where policies are tables: many seeds at once."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from experiments import comparing, space, sweeping, tabular
from experiments.comparing import Ask, Ran, Runner
from experiments.study import Arm, Study


def runner(s: Study, workdir: str) -> Runner:
  """Runs of `tabular.curves`; those of an arm and a rate are one program.

  An environment's changes are the arguments of `curves` besides the config:
  world, iterations, settings. What is done is kept below workdir.
  """
  arms = {a.name: a for a in s.arms}

  def run(asks: Sequence[Ask]) -> dict[Ask, Ran]:
    programs = defaultdict(list)
    for a in asks:
      programs[a.env, a.arm, a.rate, a.tuning].append(a)
    found = {}
    for i, (key, wanted) in enumerate(programs.items()):
      path = os.path.join(workdir, _name(*key))
      told = _kept(path, wanted)
      if told is None:
        print(f'{i + 1}/{len(programs)} {_name(*key)}', flush=True)
        told = _play(s, arms[key[1]], wanted)
        _keep(path, wanted, told)
      found |= {a: _ran(told, i) for i, a in enumerate(wanted)}
    return found

  return run


def _name(env: str, arm: str, rate: float, tuning: bool) -> str:
  kind = 'tuning' if tuning else 'pairs'
  return os.path.join(env, kind, arm, f'{rate:g}.json')


def config(arm: Arm) -> ConfigDict:
  """The arm's config; its rates are in units of the asked one."""
  path, _, arg = arm.config.partition(':')
  c = sweeping.load(path).get_config(arg)
  return space.change(c, {**arm.changes, **arm.rates})


def _play(s: Study, arm: Arm, asks: Sequence[Ask]) -> dict:
  """Curves [S, I + 1] and what is told [S] of these seeds, as JSON."""
  got = tabular.curves(
    config(arm),
    rates=[asks[0].rate],
    seeds=[a.seed for a in asks],
    salt=arm.salt,
    **{**s.changes, **s.envs[asks[0].env].changes},
  )
  return {
    'env_steps': got['env_steps'][0].tolist(),
    'success': got['success'][0].tolist(),
    'told': {k: np.asarray(x[0]).tolist() for k, x in got['told'].items()},
  }


def _kept(path: str, asks: Sequence[Ask]) -> dict | None:
  """What an earlier call kept of just these seeds."""
  if not os.path.exists(path):
    return None
  with open(path, encoding='utf-8') as f:
    told = json.load(f)
  return told if told['seeds'] == [a.seed for a in asks] else None


def _keep(path: str, asks: Sequence[Ask], told: dict) -> None:
  os.makedirs(os.path.dirname(path), exist_ok=True)
  with open(path + '.new', 'w', encoding='utf-8') as f:
    json.dump({'seeds': [a.seed for a in asks], **told}, f)
  os.replace(path + '.new', path)


def _ran(told: dict, i: int) -> Ran:
  steps = np.asarray(told['env_steps'][i], np.float64)
  success = np.asarray(told['success'][i], np.float64)
  return Ran(
    env_steps=steps,
    tokens=steps,  # a turn is one token
    success=success,
    moves=np.full(success.size, np.nan),
    seconds=told['seconds'] / len(told['success']),
    told={name: x[i] for name, x in told['told'].items()},
  )


def check_all(s: Study) -> list[tuple[str, str]]:
  """[(arm, why)] of what tables cannot stand for."""
  out = []
  for arm in s.arms:
    try:
      tabular.check(config(arm))
    except ValueError as error:
      out.append((arm.name, str(error)))
  return out


__all__ = ['check_all', 'comparing', 'config', 'runner']
