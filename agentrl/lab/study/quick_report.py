"""Report of a quick comparison: arms of runs, read up to the shortest one.

Every arm is compared with the first one, run by run where their seeds match.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.lab.study import analysis, execute, quick
from agentrl.lab.study.execute import RunResult
from agentrl.lab.study.spec import MEASURES, Arm, Env, Study
from agentrl.report import numbers
from agentrl.report.dashboard import curves
from agentrl.report.dashboard.curves import RunCurves
from agentrl.report.study import page
from agentrl.stats import intervals, paired

ORDER = ('final', 'area', 'area_tokens', 'moves')  # of the measures
PAIRED, UNPAIRED = 'paired by seed', 'unpaired (Welch)'
# Share of the budget within which an evaluation must lie: of its end, for a
# value there; of every place on the curve, for an area under it.
NEAR_END, NEAR_CURVE = 0.1, 0.25
# What should be alike in all arms, methods or not.
_COMMON = ('env.', 'model.', 'rollout.', 'sft.', 'lora.', 'eval.', 'steps')

Arms = Mapping[str, Sequence[RunCurves]]


def read(paths: Sequence[str]) -> list[RunCurves]:
  """Returns the runs of these folders, each with a curve to compare.

  Raises:
    ValueError: fewer than two, or one that was not evaluated since it began RL.
  """
  if len(paths) < 2:
    raise ValueError(
      f'{", ".join(paths) or "nothing"} is all there is to compare; name two'
      ' runs or more'
    )
  out = curves.read(paths)
  for path, run in zip(paths, out, strict=True):
    if not run.rows:
      raise ValueError(
        f'{path} has no metrics yet; leave it out, or let it train until it has'
        ' been evaluated'
      )
    phases = [row['phase'] for row in run.rows]
    if 'rl' not in phases or 'eval' not in phases[phases.index('rl') :]:
      raise ValueError(
        f'{path} was not evaluated after an RL step yet; let it go on (with'
        f' eval.every={run.config.eval.every}; 0: only at its end) or leave it'
        ' out'
      )
  return out


def arms(compared: Sequence[RunCurves]) -> dict[str, list[RunCurves]]:
  """Returns the runs by config, see curves.arms.

  Raises:
    ValueError: two runs of one arm have the same seed.
  """
  out = curves.arms(compared)
  for group in out.values():
    seeds: dict[int, RunCurves] = {}
    for run in group:
      other = seeds.setdefault(run.config.seed, run)
      if other is not run:
        raise ValueError(
          f'{other.name} and {run.name} are both seed {run.config.seed} of one'
          ' config; leave one of them out'
        )
  return out


def make(
  compared: Sequence[RunCurves], missing: Sequence[str] = ()
) -> dict[str, Any]:
  """Returns the report of these runs, for agentrl.report.study.page.

  Args:
    missing: runs that did not end, which only a warning counts

  Raises:
    ValueError: the runs are of different environments.
  """
  groups = arms(compared)
  quick.check_environments({k: group[0].config for k, group in groups.items()})
  results = {
    name: {run.config.seed: execute.result(run.rows) for run in group}
    for name, group in groups.items()
  }
  first, *others = groups
  each = [ran for of in results.values() for ran in of.values()]
  s = _study(groups, each)
  values = {
    name: {seed: measured(s, ran) for seed, ran in of.items()}
    for name, of in results.items()
  }

  def of(name: str, measure: str) -> dict[int, float]:
    return {seed: each[measure] for seed, each in values[name].items()}

  rows = [
    {'arm': name, 'baseline': first, 'measure': measure}
    | difference(of(name, measure), of(first, measure), s.level)
    for measure in ORDER
    for name in others
  ]
  setting = {
    'label': analysis.LABELS['default'],
    'arms': {
      a.name: analysis.arm_summary(
        s,
        a,
        groups[a.name][0].config.role.policy.lr,
        results[a.name],
        values[a.name],
      )
      for a in s.arms
    },
    'comparisons': [row for row in rows if 'mean' in row],
  }
  seeds = max(map(len, groups.values()))
  budget = {'env_steps': s.env_steps, 'tokens': s.tokens}
  return {
    'format': page.FORMAT,
    'name': s.name,
    'title': s.title,
    'exploratory': (
      'Exploratory: no claims were written down before the runs, learning rates'
      f' are not tuned, {_count(seeds, "seed")}.'
    ),
    'warnings': [*_warnings(groups, missing), *_sparse(values)],
    'protocol': _protocol(s, groups, setting),
    'measures': {name: MEASURES[name]._asdict() for name in ORDER},
    'envs': {
      'env': {
        'label': s.envs['env'].label,
        'budget': budget,
        'settings': {'default': setting},
      }
    },
    'spent': {
      'run_seconds': sum(ran.seconds for ran in each),
      'runs': len(each) + len(missing),
      'failed': len(missing),
    },
    'seeds': {k: [run.config.seed for run in x] for k, x in groups.items()},
  }


def _study(groups: Arms, each: Sequence[RunResult]) -> Study:
  """Returns the study of these runs, its budget where the shortest one ends."""
  first = next(iter(groups))
  run = groups[first][0]
  return Study(
    name='quick',
    title=f'Exploratory comparison: {", ".join(groups)}',
    question='',
    by='train',
    arms=tuple(Arm(name, name, '') for name in groups),
    envs={'env': Env(run.header.get('task', run.config.env.name), {})},
    claims=(),
    env_steps=int(min(ran.env_steps[-1] for ran in each)),
    tokens=int(min(ran.tokens[-1] for ran in each)),
    threshold=first,
    reference=first,
    grid=(),
    rate=0.0,
  )


def measured(s: Study, ran: RunResult) -> dict[str, float]:
  """Returns measures of a run; NaN where no evaluation is near.

  A curve is straight between evaluations. With x_i their environment steps and
  X the budget, a value at X needs min_i |x_i − X| <= NEAR_END X, and an area
  needs min_i |x_i − x| <= NEAR_CURVE X for every x in [0, X].
  """
  out = analysis.measures(s, ran, np.nan)
  solved = ran.env_steps[np.isfinite(ran.moves)]
  near = {
    'final': _covers(ran.env_steps, s.env_steps),
    'moves': _covers(solved, s.env_steps),
    'area': _spans(ran.env_steps, s.env_steps),
    'area_tokens': _spans(ran.tokens, s.tokens),
  }
  return {k: x if near.get(k, True) else np.nan for k, x in out.items()}


def _covers(x: np.ndarray, budget: float) -> bool:
  """Returns whether one of the places x lies near the budget."""
  return bool((abs(x - budget) <= NEAR_END * budget).any())


def _spans(x: np.ndarray, budget: float) -> bool:
  """Returns whether every place up to the budget has a near one in x."""
  near = NEAR_CURVE * budget
  inside = x[x <= budget + near]
  ends = inside.size and inside[0] <= near and inside[-1] >= budget - near
  return bool(ends and (np.diff(inside) <= 2 * near).all())


def _sparse(values: Mapping[str, Mapping[int, Mapping]]) -> Iterable[str]:
  """Names the runs that were evaluated too seldom to be read."""
  for measure in ('final', 'area'):
    if runs := [
      f'{arm}, seed {seed}'
      for arm, of in values.items()
      for seed, each in of.items()
      if not np.isfinite(each[measure])
    ]:
      what = MEASURES[measure].label
      yield (
        f'no value for {what}: {"; ".join(runs)}; no evaluation is near enough,'
        ' evaluate more often (eval.every)'
      )


def difference(
  a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95
) -> dict[str, Any]:
  """Returns a - b, {seed: value} each, with its interval and how it was made.

  Paired over the seeds of the smaller arm if the other has all of them, else
  as independent means. Empty if an arm has no value; without an interval if one
  has a single run.
  """
  a, b = ({k: v for k, v in x.items() if np.isfinite(v)} for x in (a, b))
  if not (a and b):
    return {}
  small, large = sorted((a, b), key=len)
  seeds = sorted(small)
  how = PAIRED if small.keys() <= large.keys() else UNPAIRED
  if how == PAIRED and len(seeds) > 1:
    pairs = paired.compare([a[i] for i in seeds], [b[i] for i in seeds], level)
    keys = ('n', 'mean', 'low', 'high', 'median', 'better')
    return {'how': how} | {
      k: v for k, v in pairs._asdict().items() if k in keys
    }
  if how == PAIRED:
    return {'how': how, 'n': 1, 'mean': a[seeds[0]] - b[seeds[0]]}
  x, y = list(a.values()), list(b.values())
  out = {'how': how, 'mean': float(np.mean(x) - np.mean(y))}
  out['better'] = paired.improvement(x, y)
  if len(small) > 1:
    out['low'], out['high'] = intervals.mean_difference(x, y, level)
  return out


def _warnings(groups: Arms, missing: Sequence[str]) -> Iterable[str]:
  """Yields what a reader has to know before any number."""
  if missing:
    yield (
      f'{_count(len(missing), "run")} did not end and'
      f' {"are" if len(missing) > 1 else "is"} left out: {", ".join(missing)}'
    )
  going = [
    f'{run.name} ({steps} of {whole} steps)'
    for group in groups.values()
    for run in group
    for steps, whole in [curves.progress(run)]
    if steps < whole
  ]
  if going:
    yield (
      f'not finished: {", ".join(going)}; all runs are read up to where the'
      ' shortest one was evaluated last'
    )
  if alone := [name for name, group in groups.items() if len(group) < 2]:
    yield f'one seed has no interval: {", ".join(alone)}'
  if tasks := [x for x in _differing(groups) if x.startswith('env.')]:
    yield f'the tasks, or their rewards, differ: {"; ".join(tasks)}'


def _differing(groups: Arms) -> list[str]:
  """Lists what arms should have in common and do not: 'steps: a 12, b 24'."""
  first, *others = groups
  fields: dict[str, dict[str, Any]] = {}
  for name in others:
    two = curves.differences(groups[first][0], groups[name][0])
    for field, (old, new) in two.items():
      if field.startswith(_COMMON):
        fields.setdefault(field, dict.fromkeys(groups, old))[name] = new
  return [
    f'{field}: ' + ', '.join(f'{name} {value}' for name, value in of.items())
    for field, of in sorted(fields.items())
  ]


def _protocol(s: Study, groups: Arms, setting: Mapping) -> list[list[str]]:
  """Says how the runs were made and compared."""
  hows = dict.fromkeys(row['how'] for row in setting['comparisons'])
  rates = {name: x['rate'] for name, x in setting['arms'].items()}
  learning = ', '.join(f'{k} {numbers.rate(x)}' for k, x in rates.items())
  seeds = '; '.join(
    f'{name}: {", ".join(str(run.config.seed) for run in group)}'
    for name, group in groups.items()
  )
  budget = (
    f'{s.env_steps:,} environment steps or {s.tokens:,} sampled tokens: where'
    ' the shortest run was evaluated last. Every run is read up to there'
  )
  evaluation = (
    'held-out tasks; the evaluation before the first update is on the curve'
  )
  lines = [
    ['Claims', 'none; a difference seen here is an idea for a study'],
    ['Learning rates', f'of the configs, not tuned: {learning}'],
    ['Seeds', seeds],
    ['Budget', budget],
    ['Evaluation', evaluation],
  ]
  if hows:
    lines.append(['Differences', f'from {s.reference}, {" or ".join(hows)}'])
  lines.append(
    [
      'Intervals',
      f'{s.level:.0%}, Student over seeds. They are of one comparison each: of'
      ' several, one may lie beside zero by chance',
    ]
  )
  if common := _differing(groups):
    lines.append(['Differs beside the method', '; '.join(common)])
  return lines


def _count(n: int, what: str) -> str:
  return f'{n} {what}' if n == 1 else f'{n} {what}s'
