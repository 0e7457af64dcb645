"""Arms that begin from one warm start for each seed, compared seed by seed.

A design says what a claim needs: a config, its sizes, what the warm start
trains, what the arms train from there, and in what each differs from the rest.
A claim a > b holds if the 95% Student interval of the paired differences of
`eval/success`, or of the design's own metric, after the last update lies above
0. A claim about one arm holds if the whole 95% Student interval of its mean
over seeds lies in a range.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.configs import envs
from agentrl.lab.study import bounds
from agentrl.lab.sweep import runs
from agentrl.log import metrics
from agentrl.stats import intervals, paired

# What claims compare: the metric after training, or its share of that before.
AFTER, LEFT = 'after', 'left'
# A warm start's steps take milliseconds, and a save takes hundreds.
SELDOM = {'checkpoint.every': 500, 'log.every': 20}


class Range(NamedTuple):
  """A claim about one arm: where the interval of its mean lies."""

  arm: str
  measure: str  # of the report
  above: float = -float('inf')
  below: float = float('inf')


class Design(NamedTuple):
  """What is fixed before the first run; changes are {config path: value}."""

  config: str  # of --config
  arms: Mapping[str, Mapping[str, Any]]  # changes of an arm, by its name
  claims: Mapping[str, tuple[str, str]]  # sentence -> (higher arm, lower arm)
  sizes: Mapping[str, Any]  # changes of every run
  warm: Mapping[str, Any]  # of a warm start
  learn: Mapping[str, Any]  # of the runs that begin from it
  # Measure -> metric of training, whose mean over updates the table shows.
  shown: Mapping[str, str] = {}
  first: int = 0  # seed; above those that another design has measured
  metric: str = 'eval/success'  # of held-out rows, before and after training
  compared: str = AFTER  # or LEFT
  # Measure -> metric of the last held-out row.
  held: Mapping[str, str] = {}
  ranges: Mapping[str, Range] = {}  # sentence -> what it says

  def seeds(self, count: int) -> range:
    """Returns the seeds that are measured."""
    return range(self.first, self.first + count)


def planned(
  d: Design, workdir: str, seeds: int
) -> tuple[list[runs.SweepRun], list[runs.SweepRun]]:
  """Plans the warm starts, then the runs that learn from them."""
  warm = [
    runs.planned(
      f'warm/seed={i}',
      d.config,
      {**d.sizes, **d.warm, **SELDOM, 'seed': i},
      workdir,
    )
    for i in d.seeds(seeds)
  ]
  learn = [
    runs.planned(
      f'{arm}/seed={i}',
      d.config,
      {**d.sizes, **d.learn, **changes, 'seed': i, 'init': start.workdir},
      workdir,
    )
    for arm, changes in d.arms.items()
    for i, start in zip(d.seeds(seeds), warm, strict=True)
  ]
  return warm, learn


def run(d: Design, workdir: str, *, jobs: int, seeds: int) -> bool:
  """Runs what is not finished; returns whether all of it succeeded.

  Args:
    jobs: processes at a time; inside jit the seeds of an arm are one
  """
  for part in planned(d, workdir, seeds):
    together = seeds if envs.in_jit(part[0].config.env.name) else 1
    if any(runs.run(part, jobs, together).values()):
      return False
  return True


def report(d: Design, workdir: str, seeds: int) -> dict[str, Any]:
  """Reads the runs: {'seeds', arm: {measure: [S]}}.

  Measures are the metric before and after training and what is LEFT of it, if
  that is compared, `shown`, `held`, and sampled tokens.
  """
  out: dict[str, Any] = {'seeds': seeds}
  for arm in d.arms:
    each = [_measures(d, workdir, arm, i) for i in d.seeds(seeds)]
    out[arm] = {name: [x[name] for x in each] for name in each[0]}
  return out


def _measures(d: Design, workdir: str, arm: str, seed: int) -> dict[str, float]:
  path = os.path.join(workdir, arm, f'seed={seed}', 'metrics.jsonl')
  rows = metrics.read(path)
  held = [row for row in rows if row['phase'] == 'eval']
  steps = [row for row in rows if row['phase'] == 'rl']
  means = {
    name: round(float(np.mean([row.get(of, 0.0) for row in steps])), 4)
    for name, of in d.shown.items()
  }
  before, after = (held[i][d.metric] for i in (0, -1))
  left = {LEFT: round(after / before, 4)} if d.compared == LEFT else {}
  return {
    'before': round(before, 4),
    AFTER: round(after, 4),
    **left,
    **means,
    **{name: round(held[-1][of], 4) for name, of in d.held.items()},
    'tokens': float(sum(row['rollout/tokens'] for row in steps)),
  }


def gap(
  x: Mapping[str, Any], a: str, b: str, measure: str = AFTER
) -> paired.Paired:
  """Compares two arms after training, seed by seed."""
  return paired.compare(x[a][measure], x[b][measure])


def table(d: Design, x: Mapping[str, Any]) -> str:
  """Writes Markdown: the metric by arm, then claims with their intervals.

  In percent, but for what is LEFT of a metric: that has a unit of its own.
  """
  percent = d.compared == AFTER
  unit, tell = (', %', _percent) if percent else ('', bounds.mean)
  columns = [f'before{unit}', f'after{unit}', *([] if percent else [LEFT])]
  head = ['arm', *columns, f'each seed{unit}', *d.shown, *d.held]
  lines = [f'| {" | ".join(head)} |', '|---' * len(head) + '|']
  for arm in d.arms:
    of = x[arm]
    each = [f'{100 * v:.0f}' if percent else f'{v:.2f}' for v in of[d.compared]]
    cells = [arm, *(tell(of[name.removesuffix(unit)]) for name in columns)]
    cells += [
      ', '.join(each),
      *(f'{np.mean(of[name]):.0%}' for name in d.shown),
    ]
    cells += [bounds.mean(of[name]) for name in d.held]
    lines.append(f'| {" | ".join(cells)} |')
  points = ', points' if percent else ''
  lines += ['', f'| claim | found | difference{points} |', '|---|---|---|']
  scale, digits = (100, 1) if percent else (1, 3)
  for claim, (a, b) in d.claims.items():
    g = gap(x, a, b, d.compared)
    mean, low, high = (
      f'{scale * v:+.{digits}f}' for v in (g.mean, g.low, g.high)
    )
    told = f'{a} - {b}: {mean} [{low}, {high}]'
    lines.append(f'| {claim} | {"yes" if g.low > 0 else "no"} | {told} |')
  return '\n'.join([*lines, *_ranges(d, x)])


def _ranges(d: Design, x: Mapping[str, Any]) -> list[str]:
  lines = ['', '| claim | found | mean |', '|---|---|---|'] if d.ranges else []
  for claim, r in d.ranges.items():
    values = x[r.arm][r.measure]
    low, high = intervals.mean_interval(values)
    found = 'yes' if r.above < low and high < r.below else 'no'
    told = f'{r.arm}, {r.measure}: {bounds.mean(values)}'
    lines.append(f'| {claim} | {found} | {told} |')
  return lines


def _percent(values: Sequence[float]) -> str:
  low, high = intervals.mean_interval(list(values))
  mean = np.mean(values)
  return f'{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]'
