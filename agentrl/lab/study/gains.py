"""Gains of runs: measured after RL, against before it or against baselines."""

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.log import metrics
from agentrl.stats import intervals, paired

FIRST = 'eval/success'  # every evaluation has it


class Gain(NamedTuple):
  """A metric of the last evaluation of runs, and what it is compared with."""

  metric: str
  before: tuple[float, ...]  # at first, or at the end of baselines
  after: tuple[float, ...]  # run i belongs to place i of `before`
  difference: paired.Paired  # after − before
  margin: float = 0.0  # 0: none
  equivalence: paired.Equivalence | None = None  # within the margin


def gain(
  runs: Sequence[str],
  metric: str,
  margin: float = 0.0,
  baselines: Sequence[str] = (),
) -> Gain:
  """Reads the runs' metrics.

  Args:
    runs: their folders, one for each seed; two at least
    metric: of evaluations, eval/...
    margin: within which the two are held for equal, above 0; 0: not asked
    baselines: folders of runs of the same seeds, whose last evaluation is
      compared; none: the first evaluation of the runs themselves

  Raises:
    ValueError: a run has not been evaluated twice, or not in this metric; the
      seeds of the two differ.
  """
  ends = [_ends(run, metric) for run in runs]
  after = tuple(last for _, last in ends)
  before = tuple(first for first, _ in ends)
  if baselines:
    last = {_seed(run): _ends(run, metric)[1] for run in baselines}
    seeds = [_seed(run) for run in runs]
    if sorted(seeds) != sorted(last) or len(last) != len(baselines):
      raise ValueError(
        f'runs and baselines must have the same seeds, each once, got'
        f' {sorted(seeds)} and {sorted(map(_seed, baselines))}'
      )
    before = tuple(last[seed] for seed in seeds)
  equal = paired.equivalence(after, before, margin) if margin else None
  difference = paired.compare(after, before)
  return Gain(metric, before, after, difference, margin, equal)


def table(
  gains: Sequence[Gain], names: tuple[str, str] = ('before', 'after')
) -> str:
  """Writes Markdown: means of the two with 95% intervals, and difference."""
  heads = 'metric', *names, 'difference, 95% interval', 'runs'
  rows = [f'| {" | ".join(heads)} |', '|---|---|---|---|---|']
  for x in gains:
    d, verdict = x.difference, ''
    if x.equivalence:
      less, more = x.equivalence
      verdict = f'; {x.margin:g} lower: p = {less:.2g}, higher: p = {more:.2g}'
    cells = (
      f'`{x.metric}`',
      _mean(x.before),
      _mean(x.after),
      f'{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]{verdict}',
      str(d.n),
    )
    rows.append(f'| {" | ".join(cells)} |')
  return '\n'.join(rows) + '\n'


def runs_in(folder: str) -> list[str]:
  """Lists run folders below one, as a sweep makes them; or the run itself.

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


def _seed(run: str) -> int:
  with open(os.path.join(run, 'config.json'), encoding='utf-8') as file:
    return json.load(file)['seed']


def _mean(values: Sequence[float]) -> str:
  low, high = intervals.mean_interval(values)
  return f'{sum(values) / len(values):.3f} [{low:.3f}, {high:.3f}]'
