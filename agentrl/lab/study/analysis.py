"""Analysis of a comparison: numbers, tests and verdicts from its runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.lab.study import execute
from agentrl.lab.study.execute import RunRequest, RunResult
from agentrl.lab.study.spec import MEASURES, SETTINGS, Arm, Study
from agentrl.report.study import page
from agentrl.stats import intervals, paired

POINTS = 25  # of a mean curve
BOOTSTRAP = 2000
PAIRS = (5, 8, 10, 12, 16, 20, 30)  # lines of the power table
LABELS = {
  'tuned': 'every arm at its own best learning rate',
  'common': 'every arm at the common learning rate',
  'default': "every arm at its config's own learning rate, not tuned",
}
Found = Mapping[RunRequest, RunResult]


def report(s: Study, run: execute.Runner) -> dict[str, Any]:
  """Tunes, runs the pairs at both settings, judges."""
  tuning = execute.tune(s, run)
  rates = {
    'tuned': {
      e: {a.name: t[a.tuned_as or a.name]['best'] for a in s.arms}
      for e, t in tuning.items()
    },
    'common': {e: {a.name: s.rate for a in s.arms} for e in s.envs},
  }
  asks = {setting: execute.pairs(s, r, setting) for setting, r in rates.items()}
  # A run that both settings ask for is one run.
  wanted = list(dict.fromkeys([*asks['tuned'], *asks['common']]))
  results = run(wanted)
  envs = {
    env: {
      'label': e.label,
      'budget': {'env_steps': s.env_steps, 'tokens': s.tokens},
      'tuning': tuning[env],
      'settings': {
        setting: one_setting(s, env, setting, asks[setting], results)
        for setting in SETTINGS
      },
    }
    for env, e in s.envs.items()
  }
  seconds = sum(ran.seconds for ran in results.values())
  return {
    'format': page.FORMAT,
    'name': s.name,
    'title': s.title,
    'question': s.question,
    'measures': {name: m._asdict() for name, m in MEASURES.items()},
    'claims': claims(s, envs),
    'envs': envs,
    'power': power(s, envs),
    'spent': {
      'run_seconds': seconds,
      'runs': len(wanted),
      'failed': len(wanted) - len(results),
    },
    'seeds': execute.seeds(s),
  }


def one_setting(
  s: Study, env: str, setting: str, asks: Sequence[RunRequest], results: Found
) -> dict[str, Any]:
  """Summarizes arms and their differences at one setting of an environment."""
  here = [a for a in asks if a.env == env]
  runs = {
    arm.name: {a.seed: results.get(a) for a in here if a.arm == arm.name}
    for arm in s.arms
  }
  rate = {a.arm: a.rate for a in here}
  level = threshold(s, runs)
  values = {
    arm: {seed: measures(s, ran, level) for seed, ran in of.items()}
    for arm, of in runs.items()
  }
  return {
    'label': LABELS[setting],
    'threshold': level,
    'arms': {
      a.name: arm_summary(s, a, rate[a.name], runs[a.name], values[a.name])
      for a in s.arms
    },
    'comparisons': comparisons(s, values),
  }


def threshold(
  s: Study, runs: Mapping[str, Mapping[int, RunResult | None]]
) -> float:
  """Averages final success of the study's threshold arm; NaN if none ended."""
  ends = [final(s, ran) for ran in runs[s.threshold].values() if ran]
  return float(np.mean(ends)) if ends else np.nan


def final(s: Study, ran: RunResult) -> float:
  return float(np.interp(s.env_steps, ran.env_steps, ran.success))


def measures(s: Study, ran: RunResult | None, level: float) -> dict[str, float]:
  """Returns every measure of a run; NaN where it did not end."""
  if ran is None:
    return dict.fromkeys(MEASURES, np.nan)
  x, y = execute.upto(ran.env_steps, ran.success, s.env_steps)
  # Never there counts as the whole budget, there at once as a hundredth.
  steps = np.clip(paired.steps_to(x, y, level), s.env_steps / 100, s.env_steps)
  tokens = execute.upto(ran.tokens, ran.success, s.tokens)
  finite = np.isfinite(ran.moves)
  moves = np.nan
  if finite.any():
    moves = np.interp(s.env_steps, ran.env_steps[finite], ran.moves[finite])
  return {
    'area': paired.area(x, y),
    'area_tokens': paired.area(*tokens),
    'final': final(s, ran),
    'speed': float(np.log2(s.env_steps / steps)),
    'moves': float(moves),
  }


def arm_summary(s: Study, arm: Arm, rate, runs, values) -> dict[str, Any]:
  """Reports everything about one arm."""
  ended = {seed: ran for seed, ran in runs.items() if ran}
  rans = ended.values()
  shaky = {
    seed
    for seed, ran in ended.items()
    if final(s, ran) < ran.success[0] - s.unstable
  }
  return {
    'label': arm.label,
    'part': arm.part,
    'config': arm.config,
    'changes': {k: str(v) for k, v in arm.changes.items()},
    'rate': rate,
    'runs': len(runs),
    'failed': len(runs) - len(ended),
    'unstable': len(shaky),
    'seconds': sum(ran.seconds for ran in rans),
    'env_steps': float(sum(ran.env_steps[-1] for ran in rans)),
    'tokens': float(sum(ran.tokens[-1] for ran in rans)),
    'measures': {
      m: summary([v[m] for v in values.values()], s.level) for m in MEASURES
    },
    'curve': {
      'env_steps': curve(
        [(r.env_steps, r.success) for r in rans], s.env_steps, s.level
      ),
      'tokens': curve([(r.tokens, r.success) for r in rans], s.tokens, s.level),
    },
    'each': [
      {
        'seed': seed,
        'failed': seed not in ended,
        'unstable': seed in shaky,
        'measures': {m: plain(x) for m, x in values[seed].items()},
      }
      for seed in runs
    ],
    'told': means([ran.metrics for ran in rans], s.extra_metrics),
  }


def plain(x: float) -> float | None:
  return float(x) if np.isfinite(x) else None


def summary(values: Sequence[float], level: float) -> dict | None:
  """Returns mean, median, interquartile mean with intervals; None if empty.

  One value has no interval.
  """
  x = np.array([v for v in values if np.isfinite(v)])
  if x.size < 2:
    one = float(x[0]) if x.size else None
    same = dict.fromkeys(('mean', 'median', 'iqm'), one)
    return {'n': 1, **same} if x.size else None
  low, high = intervals.mean_interval(x, level)
  middle = intervals.bootstrap(
    x, paired.interquartile_mean, seed=0, n=BOOTSTRAP, level=level
  )
  return {
    'n': x.size,
    'mean': float(x.mean()),
    'low': low,
    'high': high,
    'median': float(np.median(x)),
    'iqm': paired.interquartile_mean(x),
    'iqm_low': middle[0],
    'iqm_high': middle[1],
    'sd': float(x.std(ddof=1)),
  }


def curve(lines, budget: float, level: float) -> dict | None:
  """Averages curves up to the budget, with an interval from two runs on."""
  if not lines:
    return None
  at = np.linspace(0, budget, POINTS)
  y = np.stack([np.interp(at, *line) for line in lines])  # [runs, POINTS]
  mean = {'x': at.tolist(), 'mean': y.mean(axis=0).tolist()}
  if len(lines) < 2:
    return mean
  bands = np.array([intervals.mean_interval(column, level) for column in y.T])
  return mean | {'low': bands[:, 0].tolist(), 'high': bands[:, 1].tolist()}


def means(runs: Sequence[Mapping[str, float]], names: Mapping[str, str]):
  """Returns {label: mean over runs} of the metrics that the runs have."""
  out = {}
  for label, name in names.items():
    x = [r[name] for r in runs if name in r and np.isfinite(r[name])]
    if x:
      out[label] = float(np.mean(x))
  return out


Values = Mapping[str, Mapping[int, Mapping[str, float]]]


def pair(
  values: Values, a: str, b: str, measure: str, level: float
) -> paired.Paired | None:
  """Returns a - b over the pairs of both arms; None if fewer than two ended."""
  seeds = sorted(values[a].keys() & values[b].keys())
  x, y = ([values[arm][i][measure] for i in seeds] for arm in (a, b))
  if np.sum(np.isfinite(x) & np.isfinite(y)) < 2:
    return None
  return paired.compare(x, y, level)


def comparisons(s: Study, values: Values) -> list[dict[str, Any]]:
  """Returns every arm with the reference, and every claim's two arms.

  Holm's correction is over the comparisons of one measure.
  """
  couples = [(a.name, s.reference) for a in s.arms if a.name != s.reference]
  couples += [(c.arm, c.baseline) for c in s.claims]
  out = []
  for measure in MEASURES:
    pairs = {
      couple: pair(values, *couple, measure, s.level)
      for couple in dict.fromkeys(couples)
    }
    pairs = {couple: x for couple, x in pairs.items() if x}
    holm = paired.holm({couple: x.p for couple, x in pairs.items()})
    out += [
      {
        'arm': a,
        'baseline': b,
        'measure': measure,
        **x._asdict(),
        'failed': list(x.failed),
        'holm': holm[a, b],
      }
      for (a, b), x in pairs.items()
    ]
  return out


def claims(s: Study, envs: Mapping[str, Mapping]) -> list[dict[str, Any]]:
  """Returns every claim at both settings, Holm-corrected within a setting."""
  out = []
  for setting in SETTINGS:
    rows = {
      (env, i): _found(envs[env]['settings'][setting]['comparisons'], c)
      for env in s.envs
      for i, c in enumerate(s.claims)
    }
    holm = paired.holm({k: x['p'] for k, x in rows.items() if x})
    for (env, i), x in rows.items():
      claim = s.claims[i]
      row = {**claim._asdict(), 'env': env, 'setting': setting}
      row |= {'found': None, 'verdict': 'not measured'}
      if x:
        row['found'] = {**x, 'holm': holm[env, i]}
        row['verdict'] = paired.verdict(
          x['low'], x['high'], claim.claimed, holm[env, i], s.level
        )
      out.append(row)
  return out


def _found(rows: Sequence[Mapping], claim) -> dict | None:
  keys = ('n', 'mean', 'low', 'high', 'p')
  for row in rows:
    named = (row['arm'], row['baseline'], row['measure'])
    if named == (claim.arm, claim.baseline, claim.measure):
      return {key: row[key] for key in keys}
  return None


def power(s: Study, envs: Mapping[str, Mapping]) -> dict[str, Any] | None:
  """Returns the least difference that pairs of this spread find (80%)."""
  spread = [
    row['sd']
    for env in envs.values()
    for row in env['settings']['tuned']['comparisons']
    if row['measure'] == 'area' and row['sd'] > 0
  ]
  if not spread:
    return None
  sd = float(np.median(spread))
  family = max(1, len(s.claims) * len(s.envs))
  return {
    'measure': 'area',
    'sd': sd,
    'rows': [
      {'pairs': n, 'alpha': alpha, 'smallest': paired.smallest(sd, n, alpha)}
      for n in sorted({*PAIRS, s.pairs})
      for alpha in dict.fromkeys((0.05, 0.05 / family))
    ],
  }
