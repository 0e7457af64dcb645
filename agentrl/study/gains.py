"""Gains of runs: what they measured after the warm start and after RL."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.log import metrics
from agentrl.stats import intervals, paired

FIRST = 'eval/success'  # every evaluation has it


class Gain(NamedTuple):
  """A metric of the first and the last evaluation of the same runs."""

  metric: str
  before: tuple[float, ...]
  after: tuple[float, ...]  # of the same runs, in their order
  difference: paired.Paired  # after − before
  margin: float = 0.0  # 0: none
  equivalence: float = 1.0  # p of a mean difference of the margin or more


def gain(runs: Sequence[str], metric: str, margin: float = 0.0) -> Gain:
  """Reads the runs' metrics.

  Args:
    runs: their folders, one for each seed; two at least
    metric: of evaluations, eval/...
    margin: within which the two are held for equal, above 0; 0: not asked

  Raises:
    ValueError: a run has not been evaluated twice, or not in this metric.
  """
  pairs = [_ends(run, metric) for run in runs]
  before, after = zip(*pairs, strict=True) if pairs else ((), ())
  p = paired.equivalence(after, before, margin) if margin else 1.0
  difference = paired.compare(after, before)
  return Gain(metric, before, after, difference, margin, p)


def table(gains: Sequence[Gain], level: float = 0.95) -> str:
  """Markdown: means of the two with intervals over runs, their difference."""
  rows = [
    f'| metric | before | after | difference, {level:.0%} interval | runs |',
    '|---|---|---|---|---|',
  ]
  for x in gains:
    d = paired.compare(x.after, x.before, level)
    verdict = ''
    if x.margin:
      verdict = f', within ±{x.margin:g}: p = {x.equivalence:.2g}'
    cells = (
      f'`{x.metric}`',
      _mean(x.before, level),
      _mean(x.after, level),
      f'{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]{verdict}',
      str(d.n),
    )
    rows.append(f'| {" | ".join(cells)} |')
  return '\n'.join(rows) + '\n'


def finished(folder: str) -> list[str]:
  """Folders of runs below one, as a sweep makes them; or the run itself.

  Raises:
    ValueError: there is none.
  """
  if os.path.exists(os.path.join(folder, 'metrics.jsonl')):
    return [folder]
  names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
  runs = [os.path.join(folder, name) for name in names]
  runs = [x for x in runs if os.path.exists(os.path.join(x, 'metrics.jsonl'))]
  if not runs:
    raise ValueError(f'{folder!r} holds no run: no metrics.jsonl is there')
  return runs


def _ends(run: str, metric: str) -> tuple[float, float]:
  rows = metrics.read(os.path.join(run, 'metrics.jsonl'))
  rows = [row for row in rows if FIRST in row]
  if len(rows) < 2:
    raise ValueError(
      f'run {run} was evaluated {len(rows)} time(s), and 2 are needed: after'
      ' the warm start and at the end; wait until it has ended'
    )
  missing = [row['step'] for row in (rows[0], rows[-1]) if metric not in row]
  if missing:
    have = ', '.join(sorted(x for x in rows[0] if x.startswith('eval/')))
    raise ValueError(
      f'run {run} has no {metric!r} at step {missing[0]}; it has {have}'
    )
  return float(rows[0][metric]), float(rows[-1][metric])


def _mean(values: Sequence[float], level: float) -> str:
  low, high = intervals.mean_interval(values, level)
  return f'{sum(values) / len(values):.3f} [{low:.3f}, {high:.3f}]'
