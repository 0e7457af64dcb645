"""Arms that begin from one warm start for each seed, compared seed by seed.

A design says what a claim needs: a config, its sizes, what the warm start
trains, what the arms train from there, and in what each differs from the rest.
A claim a > b holds if the 95% Student interval of the paired differences of
`eval/success` after the last update lies above 0.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.configs import envs
from agentrl.lab.sweep import runs
from agentrl.log import metrics
from agentrl.stats import intervals, paired


class Design(NamedTuple):
  """What is fixed before the first run; changes are {config path: value}."""

  config: str  # of --config
  arms: Mapping[str, Mapping[str, Any]]  # changes of an arm, by its name
  claims: Mapping[str, tuple[str, str]]  # sentence -> (better arm, worse arm)
  sizes: Mapping[str, Any]  # changes of every run
  warm: Mapping[str, Any]  # of a warm start
  learn: Mapping[str, Any]  # of the runs that begin from it
  # Measure -> metric of training, whose mean over updates the table shows.
  shown: Mapping[str, str] = {}
  first: int = 0  # seed; above those that another design has measured

  def seeds(self, count: int) -> range:
    """Returns the seeds that are measured."""
    return range(self.first, self.first + count)


def planned(
  d: Design, workdir: str, seeds: int
) -> tuple[list[runs.SweepRun], list[runs.SweepRun]]:
  """Plans the warm starts, then the runs that learn from them."""
  warm = [
    runs.planned(
      f'warm/seed={i}', d.config, {**d.sizes, **d.warm, 'seed': i}, workdir
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

  Measures are success before and after training, sampled tokens, and `shown`.
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
  return {
    'before': round(held[0]['eval/success'], 4),
    'after': round(held[-1]['eval/success'], 4),
    **means,
    'tokens': float(sum(row['rollout/tokens'] for row in steps)),
  }


def gap(x: Mapping[str, Any], a: str, b: str) -> paired.Paired:
  """Compares two arms after training, seed by seed."""
  return paired.compare(x[a]['after'], x[b]['after'])


def table(d: Design, x: Mapping[str, Any]) -> str:
  """Writes Markdown: success by arm, then claims with their differences."""
  head = ['arm', 'before, %', 'after, %', 'each seed, %', *d.shown]
  lines = [f'| {" | ".join(head)} |', '|---' * len(head) + '|']
  for arm in d.arms:
    of = x[arm]
    each = ', '.join(f'{100 * v:.0f}' for v in of['after'])
    cells = [arm, _mean(of['before']), _mean(of['after']), each]
    cells += [f'{np.mean(of[name]):.0%}' for name in d.shown]
    lines.append(f'| {" | ".join(cells)} |')
  lines += ['', '| claim | found | difference, points |', '|---|---|---|']
  for claim, (a, b) in d.claims.items():
    g = gap(x, a, b)
    mean, low, high = (100 * x for x in (g.mean, g.low, g.high))
    told = f'{a} - {b}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]'
    lines.append(f'| {claim} | {"yes" if g.low > 0 else "no"} | {told} |')
  return '\n'.join(lines)


def _mean(values: Sequence[float]) -> str:
  low, high = intervals.mean_interval(list(values))
  mean = np.mean(values)
  return f'{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]'
