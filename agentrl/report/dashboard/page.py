"""The metrics of runs side by side as one HTML page that loads nothing."""

import datetime
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.log import run_summary
from agentrl.report import html, svg
from agentrl.report import numbers as numbers_lib
from agentrl.report import tables as tables_lib
from agentrl.report.dashboard import charts as charts_lib
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard.curves import Run
from agentrl.report.html import Markup, element, note
from agentrl.report.svg import Look
from agentrl.run import workdir

_STYLES = ('study/static/page.css', 'dashboard/static/page.css')
_MAIN = {'eval': 'Held-out tasks', 'rollout': 'Rollouts', 'loss': 'Losses'}
_LAST = {'time': 'Time'}
_ENDS = ('eval/low', 'eval/high')  # of the interval drawn around success
_TOLD = """Thick: {thick}; thin: each step. A dotted vertical: where RL begins;
no mean reaches over it. Points: evaluations, success with its 95% interval.
Numbers that are not finite leave a gap. What a curve is called and where it
ends shows under the pointer."""
_KIND = 'method'  # a full line, in the words of a comparison's style sheet


def page(
  runs: Sequence[Run],
  *,
  x: str = 'step',
  smooth: int = 0,
  again: int | None = None,
  now: datetime.datetime | None = None,
) -> str:
  """The page, a pure function of what is given.

  Args:
    x: of all pictures, one of curves.X
    smooth: steps of a mean; 0: a twentieth of the longest run's
    again: seconds after which a browser reads the page anew
    now: when the runs were read, told if given
  """
  known = [
    Look(run.name, _KIND, i % svg.COLORS, i % len(svg.SHAPES))
    for i, run in enumerate(runs)
  ]
  steps = curves_lib.window(runs, smooth)
  parts = [
    ('runs', 'Runs', _table(runs, known)),
    *_groups(runs, known, steps, x),
    ('config', 'What differs in the configs', _differences(runs, known)),
    ('numbers', 'Newest numbers', _newest(runs, known)),
  ]
  parts = [part for part in parts if part[2]]
  title = ', '.join(run.name for run in runs[:4])
  title += f' and {len(runs) - 4} more' if len(runs) > 4 else ''
  links = (element('a', text, href=f'#{name}') for name, text, _ in parts)
  styles = (
    (pathlib.Path(__file__).parents[1] / name).read_text(encoding='utf-8')
    for name in _STYLES
  )
  return html.page(
    title,
    ''.join(styles),
    element(
      'header',
      element('h1', title),
      element('p', f'Read {now:%Y-%m-%d %H:%M:%S %Z}', class_='spent')
      if now
      else None,
      element('nav', *links, aria_label='contents'),
    ),
    element('main', _legend(known), _how(steps), *map(_section, parts)),
    again=again,
  )


def _section(part: tuple[str, str, Markup]) -> Markup:
  name, title, content = part
  return element('section', element('h2', title), content, id=name)


def _legend(known: Sequence[Look]) -> Markup:
  items = (element('li', tables_lib.named(look)) for look in known)
  return element('ul', *items, class_='legend')


def _how(steps: int) -> Markup:
  thick = f'mean of the last {steps} steps' if steps > 1 else 'each step'
  return note(_TOLD.format(thick=thick))


def _table(runs: Sequence[Run], known: Sequence[Look]) -> Markup:
  rows = [
    {'run': tables_lib.named(look), **_facts(run)}
    for run, look in zip(runs, known, strict=True)
  ]
  return tables_lib.table(rows, 'runs')


def _facts(run: Run) -> dict[str, str]:
  """How far it is and what it showed."""
  phases = [row['phase'] for row in run.rows]
  steps = sum(row['phase'] != 'eval' for row in run.rows)
  c = run.config
  whole = c.steps + (0 if c.init else c.sft.steps)
  verdict = run_summary.judge(run.rows)
  clock = [row['time/seconds'] for row in run.rows if 'time/seconds' in row]
  return {
    'method': str(run.header.get('method', c.method)),
    'task': str(run.header.get('task', c.env.name)),
    'seed': str(c.seed),
    'step': f'{steps} of {whole}' + (f', {phases[-1]}' if phases else ''),
    'success before RL': _success(verdict.before),
    'newest since, 95%': _success(verdict.after),
    'time': numbers_lib.duration(clock[-1] if clock else None),
  }


def _success(found: run_summary.Evaluation | None) -> str:
  if found is None:
    return numbers_lib.NOTHING
  return f'{found.success:.1%} [{found.low:.1%}, {found.high:.1%}]'


def groups(runs: Sequence[Run]) -> list[tuple[str, str, list[str]]]:
  """(id, title, metrics) in the order of the page, by what a name begins with.

  Held-out tasks, rollouts, losses, each network, then what is left, then time.
  """
  found: dict[str, list[str]] = {}
  for name in sorted(curves_lib.every_metric(runs), key=_rank):
    found.setdefault(name.partition('/')[0], []).append(name)
  roles = {name: f'Network: {name}' for run in runs for name in run.config.role}
  titles = {k: k for k in found} | roles | _MAIN | _LAST
  order = [*_MAIN, *sorted(roles)]
  order += [k for k in found if k not in (*order, *_LAST)] + list(_LAST)
  return [(f'of-{k}', titles[k], found[k]) for k in order if k in found]


def _rank(name: str) -> tuple[bool, str]:
  """Success is what a run is about: first of its group."""
  return not name.endswith('/success'), name


def _groups(runs, known, steps: int, x: str) -> Iterable[tuple]:
  for name, title, metrics in groups(runs):
    shown = [metric for metric in metrics if metric not in _ENDS]
    drawn = [_figure(metric, runs, known, steps, x) for metric in shown]
    drawn = [figure for figure in drawn if figure]
    if drawn:
      yield name, title, element('div', *drawn, class_='panels')


def _figure(name: str, runs, known, steps: int, x: str) -> Markup | None:
  drawn = []
  for run, look in zip(runs, known, strict=True):
    pieces = curves_lib.pieces(run, name, x)
    band = _band(run, x) if name == 'eval/success' else []
    if pieces:
      begin = curves_lib.begin_of_rl(run, x)
      drawn.append(charts_lib.Curve(look, pieces, band, begin))
  picture = charts_lib.chart(name, drawn, steps, curves_lib.X[x])
  lost = sum(int(np.sum(~np.isfinite(p.y))) for c in drawn for p in c.pieces)
  told = element('small', f' {lost} not finite') if lost else None
  if picture is None:
    return None
  return element('figure', element('figcaption', name, told), picture)


def _band(run: Run, x: str) -> list[np.ndarray]:
  """The intervals of a run's evaluations."""
  ends = [curves_lib.pieces(run, end, x) for end in _ENDS]
  if not all(ends):
    return []
  (low,), (high,) = ends
  return [np.stack([low.x, low.y, high.y], axis=1)] if len(low.x) > 1 else []


def _differences(runs: Sequence[Run], known: Sequence[Look]) -> Markup | None:
  """The settings that are not the same in all runs."""
  first, *others = runs
  found: dict[str, dict[int, Any]] = {}
  for i, run in enumerate(others, 1):
    for name, old, new in workdir.differences(first.config, run.config):
      found.setdefault(name, {0: old})[i] = new
  if not found:
    return note('Nothing.') if others else None
  rows = [
    {'config': name}
    | _across(known, [told.get(i, told[0]) for i in range(len(runs))])
    for name, told in sorted(found.items())
  ]
  return tables_lib.table(rows, 'settings that differ')


def _across(known: Sequence[Look], values: Sequence[Any]) -> Mapping[str, str]:
  """A cell for each run; heads are markup, equal only if the run is."""
  return {
    tables_lib.named(look): str(value)
    for look, value in zip(known, values, strict=True)
  }


def _newest(runs: Sequence[Run], known: Sequence[Look]) -> Markup | None:
  """Every metric's last value: also of those without a finite one."""
  last = [{k: v for row in run.rows for k, v in row.items()} for run in runs]
  rows = [
    {'metric': name}
    | _across(
      known,
      [_value(x[name]) if name in x else numbers_lib.NOTHING for x in last],
    )
    for name in curves_lib.every_metric(runs)
  ]
  if not rows:
    return None
  return tables_lib.fold('All', tables_lib.table(rows, 'newest numbers'))


def _value(x: float) -> str:
  return f'{x:.5g}'.replace('-', '\N{MINUS SIGN}')
