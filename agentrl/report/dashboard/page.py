"""The metrics of runs side by side as one HTML page that loads nothing."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from agentrl.log import descriptions, run_summary
from agentrl.report import numbers as numbers_lib
from agentrl.report import render, svg
from agentrl.report.dashboard import charts as charts_lib
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard.curves import RunCurves
from agentrl.report.svg import Look
from agentrl.run import workdir

_MAIN = {'eval': 'Held-out tasks', 'rollout': 'Rollouts', 'loss': 'Losses'}
_LAST = {'time': 'Time'}
_KIND = 'method'  # a full line, in the words of a comparison's style sheet


def page(
  runs: Sequence[RunCurves],
  *,
  x: str = 'step',
  smooth: int = 0,
  again: int | None = None,
  now: datetime.datetime | None = None,
) -> str:
  """Returns the page, a pure function of what is given.

  Args:
    x: of all pictures, one of curves.X
    smooth: steps of a mean; 0: a twentieth of the longest run's
    again: seconds after which a browser reads the page anew
    now: when the runs were read, told if given
  """
  arms = {  # one that is alone keeps its name
    f'{name}, mean of {len(group)}' if len(group) > 1 else group[0].name: group
    for name, group in curves_lib.arms(runs).items()
  }
  looks = [
    Look(name, _KIND, i % svg.COLORS, i % len(svg.MARKERS))
    for i, name in enumerate(arms)
  ]
  of_run = [
    look._replace(label=run.name)
    for run in runs
    for look, group in zip(looks, arms.values(), strict=True)
    if run in group
  ]
  steps = curves_lib.window(runs, smooth)
  title = ', '.join(run.name for run in runs[:4])
  title += f' and {len(runs) - 4} more' if len(runs) > 4 else ''
  return render.render(
    'dashboard.html.j2',
    title=title,
    again=again,
    now=f'{now:%Y-%m-%d %H:%M:%S %Z}' if now else None,
    looks=looks,
    of_run=of_run,
    means=len(arms) < len(runs),
    steps=steps,
    facts=[_facts(run) for run in runs],
    groups=list(_groups(runs, [*arms.values()], looks, steps, x)),
    differences=_differences(runs),
    newest=_newest(runs),
  )


def _facts(run: RunCurves) -> dict[str, str]:
  """Returns progress and results of a run."""
  phases = [row['phase'] for row in run.rows]
  c, (steps, whole) = run.config, curves_lib.progress(run)
  verdict = run_summary.judge(run.rows)
  clock = [row['time/seconds'] for row in run.rows if 'time/seconds' in row]

  def success(e: run_summary.Evaluation | None) -> str:
    if e is None:
      return numbers_lib.NOTHING
    return f'{e.success:.1%} [{e.low:.1%}, {e.high:.1%}]'

  return {
    'method': str(run.header.get('method', c.method)),
    'task': str(run.header.get('task', c.env.name)),
    'seed': str(c.seed),
    'step': f'{steps} of {whole}' + (f', {phases[-1]}' if phases else ''),
    'success before RL': success(verdict.before),
    'newest since, 95%': success(verdict.after),
    'time': numbers_lib.duration(clock[-1] if clock else None),
  }


def groups(runs: Sequence[RunCurves]) -> list[tuple[str, str, list[str]]]:
  """Groups metrics in page order: (id, title, metrics), by a name's beginning.

  Held-out tasks, rollouts, losses, each network, then what is left, then time.
  """
  members: dict[str, list[str]] = {}
  # Success is what a run is about: first of its group.
  rank = lambda name: (not name.endswith('/success'), name)  # noqa: E731
  for name in sorted(curves_lib.every_metric(runs), key=rank):
    members.setdefault(name.partition('/')[0], []).append(name)
  roles = {name: f'Network: {name}' for run in runs for name in run.config.role}
  titles = {k: k for k in members} | roles | _MAIN | _LAST
  order = [*_MAIN, *sorted(roles)]
  order += [k for k in members if k not in (*order, *_LAST)] + list(_LAST)
  return [(f'of-{k}', titles[k], members[k]) for k in order if k in members]


class Panel(NamedTuple):
  """A metric with its picture; lost: values that were not finite."""

  metric: str
  description: str
  lost: int
  picture: Markup


def _groups(
  runs: Sequence[RunCurves],
  arms: Sequence[Sequence[RunCurves]],
  looks: Sequence[Look],
  steps: int,
  x: str,
) -> Iterable[tuple[str, str, list[Panel], list[str]]]:
  """Lists (id, title, panels, notes) of each group with something to show.

  A metric that never changes, or has the picture of another, is a note.
  """
  means = [
    curves_lib.mean(look.label, members) if len(members) > 1 else members[0]
    for look, members in zip(looks, arms, strict=True)
  ]
  seen: dict[bytes, str] = {}
  for group, title, metrics in groups(runs):
    panels, single, constant, same = [], [], [], []
    for metric in (
      metric for metric in metrics if metric not in curves_lib.ENDS
    ):
      drawn = [
        curve
        for look, run, members in zip(looks, means, arms, strict=True)
        if (curve := _curve(run, members, look, metric, x))
      ]
      parts = [p for c in drawn for p in (c.each or c.pieces)]
      points = [np.stack([p.x, p.y], 1)[np.isfinite(p.y)] for p in parts]
      x_all, finite = np.concatenate([np.zeros((0, 2)), *points]).T
      if len(np.unique(x_all)) == 1:
        values = ', '.join(f'{value:.5g}' for value in finite)
        single.append(f'{metric} = {values}')
        continue
      if len(finite) and not np.ptp(finite):
        constant.append(f'{metric} = {finite[0]:.5g}')
        continue
      other = seen.setdefault(_picture_key(drawn), metric)
      if other != metric and len(finite):
        same.append(f'{metric} (as {other})')
        continue
      picture = charts_lib.chart(metric, drawn, steps, curves_lib.X[x])
      if picture:
        lost = sum(len(p.y) for p in parts) - len(finite)
        unit, meaning = descriptions.describe(metric) or ('', '')
        text = f'{meaning} ({unit})' if unit else meaning
        panels.append(Panel(metric, text, lost, picture))
    notes = [
      f'{what}: {", ".join(names)}.'
      for what, names in (
        ('Measured once', single),
        ('Never changed', constant),
        ('Drawn once', same),
      )
      if names
    ]
    if panels or notes:
      yield group, title, panels, notes


def _curve(
  run: RunCurves, members: Sequence[RunCurves], look: Look, metric: str, x: str
) -> charts_lib.Curve | None:
  """Returns the curve of a run, or of a mean with its members behind it."""
  each = [p for one in members for p in curves_lib.pieces(one, metric, x)]
  if not each:
    return None
  pieces = curves_lib.pieces(run, metric, x) or each
  band = _band(run, x) if metric == curves_lib.SUCCESS else []
  begin = curves_lib.begin_of_rl(run, x)
  behind = each if len(members) > 1 else ()
  return charts_lib.Curve(look, pieces, band, begin, behind)


def _picture_key(drawn: Sequence[charts_lib.Curve]) -> bytes:
  """Keys metrics alike if their pictures differ in an axis's numbers only."""
  pieces = [p for curve in drawn for p in curve.pieces]
  y = np.concatenate([np.zeros(0), *(p.y for p in pieces)])
  scale = np.nanmax(np.abs(y), initial=0.0) or 1.0
  x = np.concatenate([np.zeros(0), *(p.x for p in pieces)])
  looks = repr([(c.look.label, len(c.pieces)) for c in drawn])
  return b''.join([(y / scale).round(6).tobytes(), x.tobytes(), looks.encode()])


def _band(run: RunCurves, x: str) -> list[np.ndarray]:
  """Returns the intervals of a run's evaluations, [n, 3] between gaps.

  An evaluation that scored no episode has no success, and the interval of
  nothing, [0, 1], is not drawn.
  """
  names = (curves_lib.SUCCESS, *curves_lib.ENDS)
  rows = [row for row in run.rows if row.keys() >= set(names)]
  whole = run._replace(rows=rows)
  if not all(parts := [curves_lib.pieces(whole, name, x) for name in names]):
    return []
  (success,), (low,), (high,) = parts
  band = np.stack([low.x, low.y, high.y], axis=1)
  band[~np.isfinite(success.y)] = np.nan
  gaps = np.flatnonzero(np.isnan(band).any(1))
  finite = [p[np.isfinite(p).all(1)] for p in np.split(band, gaps)]
  return [part for part in finite if len(part) > 1]


def _differences(runs: Sequence[RunCurves]) -> list[tuple[str, list[str]]]:
  """Lists settings that are not the same in all runs: name, value of each."""
  first, *others = runs
  changes: dict[str, dict[int, Any]] = {}
  for i, run in enumerate(others, 1):
    for name, old, new in workdir.differences(first.config, run.config):
      changes.setdefault(name, {0: old})[i] = new
  return [
    (name, [str(values.get(i, values[0])) for i in range(len(runs))])
    for name, values in sorted(changes.items())
  ]


def _newest(runs: Sequence[RunCurves]) -> list[tuple[str, list[str]]]:
  """Returns every metric's last value: also of those without a finite one."""
  last = [{k: v for row in run.rows for k, v in row.items()} for run in runs]

  def value(row: dict[str, float], name: str) -> str:
    if name not in row:
      return numbers_lib.NOTHING
    return f'{row[name]:.5g}'.replace('-', numbers_lib.MINUS)

  names = curves_lib.every_metric(runs)
  return [(name, [value(row, name) for row in last]) for name in names]
