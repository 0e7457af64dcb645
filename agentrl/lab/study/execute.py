"""Runs of a comparison: warm starts, tuning, pairs; and their curves."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab.study import spec
from agentrl.lab.study.spec import Arm, Study
from agentrl.lab.sweep import runs
from agentrl.log import metrics
from agentrl.runtime import storage
from agentrl.stats import paired

SALT = 100_000  # added to the seed of a run with other keys
TUNING = 50_000  # first seed of tuning


class RunRequest(NamedTuple):
  """A run that is wanted."""

  env: str
  arm: str
  rate: float
  seed: int  # the pair, or a tuning seed
  tuning: bool = False


class RunResult(NamedTuple):
  """A run that ended; its curve begins before the first update."""

  env_steps: np.ndarray  # [E] sampled so far at each evaluation
  tokens: np.ndarray  # [E]
  success: np.ndarray  # [E] held-out
  moves: np.ndarray  # [E] turns of a solved episode; NaN where none was
  seconds: float
  metrics: Mapping[str, float]  # metric -> its mean over the RL steps


# What runs things: a run that did not end is missing from the answer.
Runner = Callable[[Sequence[RunRequest]], dict[RunRequest, RunResult]]


def seeds(s: Study) -> dict[str, list[int]]:
  """Returns the seeds of the pairs and of the tuning."""
  tuning = range(TUNING, TUNING + s.tuning)
  return {'pairs': list(s.seeds), 'tuning': list(tuning)}


def area(s: Study, ran: RunResult) -> float:
  """Averages success over the budget of environment steps."""
  return paired.area(*upto(ran.env_steps, ran.success, s.env_steps))


def upto(x, y, budget: float):
  """Cuts the curve at the budget; one that ends before stays where it was."""
  inside = x < budget
  end = np.interp(budget, x, y)
  return np.append(x[inside], budget), np.append(y[inside], end)


def tune(s: Study, run: Runner) -> dict[str, dict[str, dict]]:
  """Tunes {env: {arm: {'grid': [[rate, scores]], 'best', 'widened', 'edge'}}}.

  The best rate has the highest mean area; a run that did not end counts 0.
  """
  tuned = [a.name for a in s.arms if not a.tuned_as]
  grids = {(env, arm): list(s.grid) for env in s.envs for arm in tuned}
  ratio = s.grid[1] / s.grid[0]
  scores: dict[tuple, dict[float, list[float]]] = {key: {} for key in grids}
  for widened in range(s.widen + 1):
    asks = [
      RunRequest(env, arm, rate, TUNING + i, tuning=True)
      for i in range(s.tuning)  # equal programs do not compile at once
      for (env, arm), rates in grids.items()
      for rate in rates
      if rate not in scores[env, arm]
    ]
    if not asks:
      break
    results = run(asks)
    if not results:
      raise ValueError(
        'no run of the tuning ended; look at the log.txt of any of them'
      )
    for a in asks:
      score = area(s, results[a]) if a in results else 0.0
      scores[a.env, a.arm].setdefault(a.rate, []).append(score)
    if widened < s.widen:
      for key, rates in grids.items():
        beyond = _beyond(_best(scores[key]), rates, ratio)
        grids[key] = sorted({*rates, *beyond})
  out: dict[str, dict[str, dict]] = {env: {} for env in s.envs}
  for (env, arm), tried in scores.items():
    rates = sorted(tried)
    best = _best(tried)
    out[env][arm] = {
      'grid': [[rate, tried[rate]] for rate in rates],
      'best': best,
      'widened': len(rates) - len(s.grid),
      'edge': best in (rates[0], rates[-1]),
    }
  return out


def _best(tried: Mapping[float, Sequence[float]]) -> float:
  return max(sorted(tried), key=lambda rate: np.mean(tried[rate]))


def _beyond(best: float, rates: Sequence[float], ratio: float):
  """Returns the next rate outside, if the best one is at an edge."""
  if best == rates[0]:
    return [float(f'{best / ratio:.3g}')]
  return [float(f'{best * ratio:.3g}')] if best == rates[-1] else []


def pairs(
  s: Study, rates: Mapping[str, Mapping[str, float]], setting: str
) -> list[RunRequest]:
  """Returns the runs of all arms at the setting's rates, pair by pair."""
  return [
    RunRequest(env, a.name, rates[env][a.name], seed)
    for env in s.envs
    for seed in s.seeds
    for a in s.arms
    if seed in s.pairs_of(a, setting)
  ]


def trained(s: Study, workdir: str, places: int, together: int) -> Runner:
  """Makes runs of experiments.train in folders below workdir; skips done ones.

  Args:
    places: processes at a time
    together: pairs of an arm in one process
  """
  arms = {a.name: a for a in s.arms}

  def finish(plan: Sequence[runs.SweepRun]) -> None:
    if not all(runs.finished(r) for r in plan):
      runs.run(plan, places, together)

  def run(asks: Sequence[RunRequest]) -> dict[RunRequest, RunResult]:
    warm = {a: _warm(s, workdir, a) for a in asks}
    finish(list({r.name: r for r in warm.values()}.values()))
    ready = [a for a in asks if runs.finished(warm[a])]
    plan = {a: _run(s, arms[a.arm], workdir, a) for a in ready}
    finish(list(plan.values()))
    return {a: read(r.workdir) for a, r in plan.items() if runs.finished(r)}

  return run


def _warm_name(a: RunRequest) -> str:
  return os.path.join(a.env, 'warm', str(a.seed))


def _shared(s: Study, a: RunRequest) -> dict:
  tuning = s.tuning_changes if a.tuning else {}
  return {**s.changes, **s.envs[a.env].changes, **tuning}


def _warm(s: Study, workdir: str, a: RunRequest) -> runs.SweepRun:
  """Returns the supervised run that all arms of the pair begin with."""
  changes = {**_shared(s, a), 'seed': a.seed, 'steps': 0}
  return runs.planned(_warm_name(a), s.warm, changes, workdir)


def _run(s: Study, arm: Arm, workdir: str, a: RunRequest) -> runs.SweepRun:
  kind = 'tuning' if a.tuning else 'pairs'
  name = os.path.join(a.env, kind, a.arm, f'{a.rate:g}', str(a.seed))
  changes = {
    **_shared(s, a),
    **arm.changes,
    **{path: times * a.rate for path, times in arm.rates.items()},
    'seed': a.seed + SALT * arm.salt,
    'init': os.path.join(workdir, _warm_name(a)),
  }
  return runs.planned(name, arm.config, changes, workdir)


def planned(
  s: Study, workdir: str, a: RunRequest
) -> tuple[runs.SweepRun, runs.SweepRun]:
  """Returns a run, and the warm start that it begins with; both checked."""
  return _run(s, s.arm(a.arm), workdir, a), _warm(s, workdir, a)


def check_all(s: Study, workdir: str) -> None:
  """Checks every arm's config with its changes, before any run."""
  for env in s.envs:
    for arm in s.arms:
      for tuning in (True, False):
        a = RunRequest(env, arm.name, s.rate, TUNING if tuning else 0, tuning)
        ours, warm = planned(s, workdir, a)
        if ours.config.model != warm.config.model:
          raise ValueError(
            f'arm {arm.name!r} ({arm.config}) has another model than the warm'
            f' starts ({s.warm}); give them the same config argument or set'
            ' the fields of c.model in the changes of the study'
          )


def read(workdir: str) -> RunResult:
  """Returns the curve of a finished run."""
  return result(metrics.read(os.path.join(workdir, 'metrics.jsonl')))


def result(rows: Sequence[Mapping[str, Any]]) -> RunResult:
  """Returns the curve of rows, one of which at least is an evaluation."""
  env_steps = tokens = 0.0
  points: list[tuple] = []
  values: dict[str, list[float]] = {}
  for row in rows:
    if row['phase'] == 'rl':
      env_steps += row['rollout/env_steps']
      tokens += row['rollout/tokens']
      for name, x in row.items():
        if isinstance(x, float):
          values.setdefault(name, []).append(x)
    elif row['phase'] == 'eval':
      moves = row.get('eval/turns_solved', np.nan)
      points.append((env_steps, tokens, row['eval/success'], moves))
  curve = np.array(points, np.float64).T
  means = {
    name: float(np.nanmean(x)) if np.isfinite(x).any() else np.nan
    for name, x in values.items()
  }
  return RunResult(*curve, rows[-1]['time/seconds'], means)


def keep_protocol(s: Study, workdir: str) -> None:
  """Writes the protocol before the first run; refuses another one after it.

  Raises:
    ValueError: the folder is of a study with another protocol.
  """
  path = os.path.join(workdir, 'protocol.json')
  text = json.dumps(_plain(s), indent=2, default=str) + '\n'
  os.makedirs(workdir, exist_ok=True)
  there, here = json.loads(storage.write_once(path, text)), json.loads(text)
  for name in here:
    if there.get(name) != here[name]:
      raise ValueError(
        f'{path} was fixed with another {name!r} before the first run;'
        ' compare under the new protocol in another --workdir'
      )


def _plain(s: Study) -> dict:
  """Returns the fixed parts of a study, as JSON."""
  fields = vars(s) | {
    'told': s.extra_metrics,  # the name in protocols that are written
    'arms': [a._asdict() for a in s.arms],
    'claims': [c._asdict() for c in s.claims],
    'envs': {k: e._asdict() for k, e in s.envs.items()},
    'measures': {k: m._asdict() for k, m in spec.MEASURES.items()},
  }
  del fields['extra_metrics']
  for name in ('first_seed', 'common_pairs'):
    if not fields[name]:  # as protocols were written without it
      del fields[name]
  return fields | {'protocol': spec.protocol(s)}
