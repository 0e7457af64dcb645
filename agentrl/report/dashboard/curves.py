"""Metrics of runs as curves: read, split by stage, smoothed, thinned."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentrl.configs import stages
from agentrl.log import metrics, run_summary
from agentrl.report.numbers import is_number
from agentrl.run import seed_axis, workdir
from agentrl.stats import intervals

FACTS = ('step', 'phase')  # of a row, beside its numbers
SUCCESS = 'eval/success'
ENDS = ('eval/ci_low', 'eval/ci_high')  # of the interval drawn around it
X = {'step': 'step', 'time/seconds': 'minutes'}
_UNIT = {'step': 1.0, 'time/seconds': 1 / 60}
# What two configs may differ in and still be runs of one experiment.
_ASIDE = ('log.', 'mesh.', 'checkpoint.')
_FREE = (*seed_axis.FREE, 'data')
_LONGEST = 60  # characters of an arm's name
COLUMNS = 300  # of a picture: more points than two in each are not seen


class RunCurves(NamedTuple):
  """Run as read from its folder."""

  name: str
  rows: Sequence[Mapping[str, Any]]
  config: Any  # a ConfigDict: the environment may not be installed here
  header: Mapping[str, Any]


class Piece(NamedTuple):
  """Metric within one stage: f64[n] each; NaN where not finite."""

  phase: str
  x: np.ndarray
  y: np.ndarray


def read(paths: Sequence[str]) -> list[RunCurves]:
  """Reads the runs, finished or not.

  Raises:
    ValueError: a folder is not a run, or is given twice.
  """
  real = [os.path.realpath(path) for path in paths]
  for path, where in zip(paths, real, strict=True):
    if real.count(where) > 1:
      raise ValueError(f'each run must be given once, got {path} twice')
  runs = []
  for name, path in zip(names(real), paths, strict=True):
    # One that has just begun has only its config.
    config, folder, rows, header = workdir.read_config(path), Path(path), [], {}
    if (file := folder / metrics.FILE).exists():
      rows = metrics.read(file)
    if (file := folder / 'header.json').exists():
      header = json.loads(file.read_bytes())
    runs.append(RunCurves(name, rows, config, header))
  return runs


def names(paths: Sequence[str]) -> list[str]:
  """Returns the shortest distinct suffixes of the paths."""
  parts = [path.strip('/').split('/') for path in paths]
  for n in range(1, max(map(len, parts)) + 1):
    ends = ['/'.join(part[-n:]) for part in parts]
    if len(set(ends)) == len(ends):
      break
  return ends


def arms(runs: Sequence[RunCurves]) -> dict[str, list[RunCurves]]:
  """Groups runs into arms: runs that differ only in their seed.

  An arm is named by its method, plus its differences if the method repeats.
  """
  alike: list[list[RunCurves]] = []
  for run in runs:
    for group in alike:
      if not differences(group[0], run):
        group.append(run)
        break
    else:
      alike.append([run])
  return {_arm_name(group[0], alike): group for group in alike}


def differences(one: RunCurves, other: RunCurves) -> dict[str, tuple]:
  """Returns {field: two values} that make runs different experiments."""
  return {
    name: (old, new)
    for name, old, new in workdir.differences(one.config, other.config)
    if name not in _FREE and not name.startswith(_ASIDE)
  }


def _arm_name(run: RunCurves, alike: Sequence[Sequence[RunCurves]]) -> str:
  method = run.config.method or run.name
  others = [group[0] for group in alike if group[0] is not run]
  mine = {
    field: values[0]
    for other in others
    if other.config.method == run.config.method
    for field, values in differences(run, other).items()
  }
  text = ', '.join([method, *(f'{k}={v}' for k, v in sorted(mine.items()))])
  return text if len(text) <= _LONGEST else f'{method} ({run.name})'


def mean(name: str, runs: Sequence[RunCurves]) -> RunCurves:
  """Averages runs of one config over the rows that all have.

  The interval of success is Student's 95% over the runs.
  """
  tables = [{(row['step'], row['phase']): row for row in r.rows} for r in runs]
  rows = []
  for at in tables[0]:
    same = [table[at] for table in tables if at in table]
    if len(same) == len(runs):
      names = sorted(set.intersection(*map(set, same)) - {*FACTS, 'stage'})
      row = {n: float(np.mean([each[n] for each in same])) for n in names}
      if SUCCESS in row:
        ends = intervals.mean_interval([each[SUCCESS] for each in same])
        row |= dict(zip(ENDS, ends, strict=True))
      rows.append(dict(zip(FACTS, at, strict=True)) | row)
  return runs[0]._replace(name=name, rows=rows)


def every_metric(runs: Sequence[RunCurves]) -> list[str]:
  """Lists the metrics of all runs alphabetically."""
  names = {name for run in runs for row in run.rows for name in row}
  return sorted(names - {*FACTS, 'stage'})


def pieces(run: RunCurves, name: str, x: str = 'step') -> list[Piece]:
  """Splits a metric by stage; a run's evaluations form one piece.

  Supervised and RL steps measure different things under one name, so lines and
  means do not cross stages. Evaluations are placed at the time of writing.
  """
  out: dict[str, list[tuple[float, float]]] = {}
  for row in run.rows:
    if name in row and is_number(row.get(x)):
      y = row[name] if is_number(row[name]) else math.nan
      out.setdefault(row['phase'], []).append((row[x] * _UNIT[x], y))
  return [Piece(phase, *np.array(xy).T) for phase, xy in out.items()]


def begin_of_rl(run: RunCurves, x: str = 'step') -> float | None:
  """Returns where the stage before RL ended, if any."""
  phases = [row['phase'] for row in run.rows]
  if 'sft' not in phases or 'rl' not in phases:
    return None
  return run.rows[phases.index('rl')].get(x, math.nan) * _UNIT[x]


def progress(run: RunCurves) -> tuple[int, int]:
  """Returns the steps that a run has done, and its total."""
  c, steps = run.config, sum(row['phase'] != 'eval' for row in run.rows)
  return steps, sum(plan.steps for plan in stages.plans(c))


def window(runs: Sequence[RunCurves], width: int = 0) -> int:
  """Returns the smoothing window: `width`, or 1/20 of the longest run."""
  if width < 0:
    raise ValueError(f'--smooth must be at least 1 step, got {width}')
  steps = [sum(row['phase'] != 'eval' for row in run.rows) for run in runs]
  return width or max(1, max(steps) // 20)


def smooth(piece: Piece, steps: int) -> Piece:
  """Averages the last `steps` finite values of the piece."""
  there = np.isfinite(piece.y)
  y = run_summary.running_mean(piece.y[there], steps)
  return Piece(piece.phase, piece.x[there], y)


def strokes(piece: Piece) -> Iterator[np.ndarray]:
  """Splits the piece at gaps into lines through points f64[n, 2]."""
  points = np.stack([piece.x, piece.y], axis=1)
  gaps = np.flatnonzero(~np.isfinite(piece.y))
  for part in np.split(points, gaps):
    finite = part[np.isfinite(part[:, 1])]
    if len(finite):
      yield finite


def thin(points: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
  """Keeps at most the lowest and highest point of every column, in order."""
  if len(points) <= 2 * columns:
    return points
  x, y = points.T
  place = np.arange(len(x)) * columns // len(x)
  order = np.lexsort((y, place))
  first = np.flatnonzero(np.diff(place, prepend=-1))
  last = np.append(first[1:], len(x)) - 1
  return points[np.unique(np.concatenate([order[first], order[last]]))]
