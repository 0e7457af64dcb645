"""The numbers of runs as curves: read, cut at stages, smoothed, thinned."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from agentrl.log import metrics, run_summary
from agentrl.run import workdir

FACTS = ('step', 'phase')  # of a row, beside its numbers
X = {'step': 'step', 'time/seconds': 'minutes'}
_UNIT = {'step': 1.0, 'time/seconds': 1 / 60}
COLUMNS = 300  # of a picture: more points than two in each are not seen


class Run(NamedTuple):
  """What a run's folder says of it."""

  name: str
  rows: Sequence[Mapping[str, Any]]
  config: ConfigDict
  header: Mapping[str, Any]


class Piece(NamedTuple):
  """A metric within one stage: f64[n] each; NaN where it was not finite."""

  phase: str
  x: np.ndarray
  y: np.ndarray


def read(paths: Sequence[str]) -> list[Run]:
  """The runs, as far as each has come.

  Raises:
    ValueError: a folder that is no run, or is given twice, named.
  """
  real = [os.path.realpath(path) for path in paths]
  for path, where in zip(paths, real, strict=True):
    if real.count(where) > 1:
      raise ValueError(f'{path} is given twice; name every run once')
  return [
    Run(name, *_content(path))
    for name, path in zip(names(real), paths, strict=True)
  ]


def names(paths: Sequence[str]) -> list[str]:
  """The shortest ends of the paths that tell them apart."""
  parts = [path.strip('/').split('/') for path in paths]
  for n in range(1, max(map(len, parts)) + 1):
    found = ['/'.join(part[-n:]) for part in parts]
    if len(set(found)) == len(found):
      break
  return found


def _content(path: str) -> tuple[list, ConfigDict, dict[str, Any]]:
  """Rows, config, header; a run that has just begun has only its config."""
  config, rows, header = workdir.read_config(path), [], {}
  told = os.path.join(path, 'metrics.jsonl')
  if os.path.exists(told):
    rows = metrics.read(told)
  about = os.path.join(path, 'header.json')
  if os.path.exists(about):
    with open(about, encoding='utf-8') as f:
      header = json.load(f)
  return rows, config, header


def every_metric(runs: Sequence[Run]) -> list[str]:
  """The names of all numbers of all runs, in order of the alphabet."""
  names = {name for run in runs for row in run.rows for name in row}
  return sorted(names - set(FACTS))


def pieces(run: Run, name: str, x: str = 'step') -> list[Piece]:
  """The metric by stage; a run's evaluations are one piece.

  Supervised and RL steps measure different things under one name, so that no
  line and no mean goes from one to the other. An evaluation is on the clock
  where it was written.
  """
  out: dict[str, list[tuple[float, float]]] = {}
  for row in run.rows:
    if name in row and _finite(row.get(x)):
      y = row[name] if _finite(row[name]) else math.nan
      points = out.setdefault(row['phase'], [])
      points.append((row[x] * _UNIT[x], y))
  found = {phase: np.array(points).T for phase, points in out.items()}
  return [Piece(phase, *xy) for phase, xy in found.items()]


def _finite(x: Any) -> bool:
  return isinstance(x, int | float) and math.isfinite(x)


def begin_of_rl(run: Run, x: str = 'step') -> float | None:
  """Where the stage before RL ended, if there was one."""
  phases = [row['phase'] for row in run.rows]
  if 'sft' not in phases or 'rl' not in phases:
    return None
  return run.rows[phases.index('rl')].get(x, math.nan) * _UNIT[x]


def window(runs: Sequence[Run], asked: int = 0) -> int:
  """Steps of a mean: as asked, or a twentieth of the longest run's."""
  if asked < 0:
    raise ValueError(f'--smooth={asked} is no number of steps; give 1 or more')
  steps = [sum(row['phase'] != 'eval' for row in run.rows) for run in runs]
  return asked or max(1, max(steps) // 20)


def smooth(piece: Piece, steps: int) -> Piece:
  """Means of the last `steps` finite values of the piece."""
  there = np.isfinite(piece.y)
  y = run_summary.running_mean(piece.y[there], steps)
  return Piece(piece.phase, piece.x[there], y)


def strokes(piece: Piece) -> Iterator[np.ndarray]:
  """The piece without its gaps, as lines through points f64[n, 2]."""
  points = np.stack([piece.x, piece.y], axis=1)
  gaps = np.flatnonzero(~np.isfinite(piece.y))
  for part in np.split(points, gaps):
    kept = part[np.isfinite(part[:, 1])]
    if len(kept):
      yield kept


def thin(points: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
  """At most the lowest and the highest point of every column, in order."""
  if len(points) <= 2 * columns:
    return points
  x, y = points.T
  place = np.arange(len(x)) * columns // len(x)
  order = np.lexsort((y, place))
  first = np.flatnonzero(np.diff(place, prepend=-1))
  last = np.append(first[1:], len(x)) - 1
  return points[np.unique(np.concatenate([order[first], order[last]]))]
