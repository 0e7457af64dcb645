"""Run summary: learning curve as a picture, results as one screen of text."""

import io
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import patheffects, ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from agentrl.log import no_gradient
from agentrl.log.progress import duration
from agentrl.runtime import storage
from agentrl.stats import intervals

Row = Mapping[str, Any]

_OF_TASK_SET = re.compile('eval/([^/]+)/success')

LINES, COLUMNS = 24, 80
_TRAIN, _HELD_OUT = '#1f5a94', '#c8501e'
# What the lower panel shows: the first of these that the rows have.
_BELOW = {
  'rollout/return': 'return\nper episode',
  'rollout/turns': 'turns\nper episode',
}


class Evaluation(NamedTuple):
  """One held-out measurement; `low`, `high` bound `success` (95%)."""

  step: int
  success: float
  low: float
  high: float
  episodes: int | None
  solved: int | None
  turns: float | None
  tasks: int | None = None


class Verdict(NamedTuple):
  """The measurements a run is judged by; the first is called `start`."""

  before: Evaluation | None
  after: Evaluation | None
  start: str


def _number(row: Row, name: str) -> float | None:
  """Returns a finite number of a row, or None."""
  value = row.get(name)
  if isinstance(value, int | float) and math.isfinite(value):
    return value
  return None


def _series(rows: Sequence[Row], x: str, y: str) -> np.ndarray:
  """Returns the points (x, y) of the rows that have both, f64[n, 2]."""
  pairs = [(_number(row, x), _number(row, y)) for row in rows]
  points = [p for p in pairs if None not in p]
  return np.array(points, np.float64).reshape(-1, 2)


def _evaluation(row: Row) -> Evaluation | None:
  """Reads a row's eval/* numbers; bounds come from the counts if absent."""
  success, step = _number(row, 'eval/success'), _number(row, 'step')
  if success is None or step is None:
    return None
  n, solved = _number(row, 'eval/episodes'), _number(row, 'eval/solved')
  if n is not None and solved is None:
    solved = round(success * n)
  low, high = _number(row, 'eval/ci_low'), _number(row, 'eval/ci_high')
  if low is None or high is None:
    low = high = success
    if n is not None and 0 <= solved <= n:
      low, high = intervals.wilson(int(solved), int(n))
  counts = (None, None) if n is None else (int(n), int(solved))
  turns, tasks = _number(row, 'eval/turns'), _number(row, 'eval/tasks')
  tasks = None if tasks is None else int(tasks)
  return Evaluation(int(step), success, low, high, *counts, turns, tasks)


def judge(rows: Sequence[Row]) -> Verdict:
  """Picks the last evaluation before the first RL row, and the last since.

  Neither, where stages have different tasks: they cannot be compared.
  """
  phases = [row.get('phase') for row in rows]
  if task_sets(rows):
    return Verdict(None, None, 'before RL')
  begin = phases.index('rl') if 'rl' in phases else len(rows)
  first = [e for e in map(_evaluation, rows[:begin]) if e]
  later = [e for e in map(_evaluation, rows[begin:]) if e]
  start = 'warm start' if 'sft' in phases[:begin] else 'before RL'
  return Verdict((first or [None])[-1], (later or [None])[-1], start)


def task_sets(rows: Sequence[Row]) -> list[str]:
  """Names the task sets that are all played at the ends of stages.

  Each is called as the first stage that has it; none if there is one set only.
  """
  matches = (_OF_TASK_SET.fullmatch(name) for row in rows for name in row)
  return list(dict.fromkeys(m[1] for m in matches if m))


def learning_curve(
  rows: Sequence[Row],
  path_png: str | os.PathLike,
  *,
  title: str,
  x: str = 'step',
  x_label: str = 'optimizer step',
) -> None:
  """Draws success over training into a PNG of 1200 x 700 pixels.

  Above: training success of each step (thin), its running mean over a
  twentieth of the run, and held-out success with 95% intervals. Below: the
  episode return, or the turns per episode where there is no return. `x`
  names the row entry of the horizontal axis, e.g. environment steps.
  """
  figure = Figure(figsize=(12, 7), dpi=100, layout='constrained')
  canvas = FigureCanvasAgg(figure)
  figure.suptitle(title, fontsize=16, x=0.02, ha='left')
  below = [n for n in _BELOW if len(_series(rows, x, n))][:1]
  ratios = [3, 1][: 1 + len(below)]
  panels = figure.subplots(
    len(ratios), sharex=True, squeeze=False, height_ratios=ratios
  )[:, 0]
  _draw_training(panels[0], _series(rows, x, 'rollout/success'), _TRAIN)
  _draw_held_out(panels[0], rows, x)
  panels[0].set_ylim(-0.02, 1.02)
  panels[0].yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
  panels[0].set_ylabel('episodes solved', fontsize=13)
  if panels[0].get_legend_handles_labels()[0]:
    place = {'loc': 'lower right', 'bbox_to_anchor': (1.0, 1.0)}
    panels[0].legend(frameon=False, fontsize=12, ncols=3, **place)
  for axes, name in zip(panels[1:], below, strict=True):
    _draw_training(axes, _series(rows, x, name), '#555555')
    axes.set_ylabel(_BELOW[name], fontsize=13)
  panels[-1].set_xlabel(x_label, fontsize=13)
  panels[-1].xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  for axes in panels:
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(axis='y', color='#e4e4e4', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=12)
  image = io.BytesIO()
  canvas.print_png(image)
  storage.write(path_png, image.getvalue())


def _draw_training(axes: Axes, points: np.ndarray, color: str) -> None:
  if not len(points):
    return
  x, y = points.T  # [n] each
  window = max(5, len(y) // 20)
  mean, label = running_mean(y, window), f'training, mean of {window} steps'
  each = {'color': color, 'alpha': 0.4, 'linewidth': 0.9}
  axes.plot(x, y, label='training, each step', **each)
  axes.plot(x, mean, label=label, color=color, linewidth=2.2)


def running_mean(y: np.ndarray, window: int) -> np.ndarray:
  """Averages the last `window` values, fewer at the start; f64[n].

  m_i = mean(y_j : max(0, i - window + 1) <= j <= i).
  """
  total = np.concatenate([[0.0], np.cumsum(y)])
  end = np.arange(1, len(y) + 1)
  start = np.maximum(end - window, 0)
  return (total[end] - total[start]) / (end - start)


def _draw_held_out(axes: Axes, rows: Sequence[Row], x: str) -> None:
  """Draws points with 95% bars; the two that judge the run have numbers."""
  at, evaluations, here = [], [], 0.0
  for row in rows:
    here = here if _number(row, x) is None else _number(row, x)
    if evaluation := _evaluation(row):
      at.append(here)  # an evaluation without x stands where training was
      evaluations.append(evaluation)
  if not evaluations:
    return
  y, low, high = np.array([e[1:4] for e in evaluations]).T  # [n] each
  bars = np.clip([y - low, high - y], 0, None)  # [2, n]
  look = {'fmt': 'o', 'color': _HELD_OUT, 'markersize': 7, 'capsize': 4}
  label = 'held out, 95% interval'
  axes.errorbar(at, y, yerr=bars, label=label, zorder=5, clip_on=False, **look)
  before, after, start = judge(rows)
  for e, name in [(before, start), (after, 'after RL')]:
    if e is not None:
      _name_point(axes, at[evaluations.index(e)], e, f'{name} {e.success:.0%}')


def _name_point(axes: Axes, x: float, e: Evaluation, text: str) -> None:
  """Writes under the bar of a point, or above it near the floor."""
  left, right = axes.dataLim.intervalx
  to_left = right > left and (x - left) / (right - left) > 0.5
  under = e.low > 0.12
  axes.annotate(
    text,
    (x, e.low if under else e.high),
    xytext=(6 if to_left else -6, -8 if under else 8),
    textcoords='offset points',
    ha='right' if to_left else 'left',
    va='top' if under else 'bottom',
    fontsize=14,
    color=_HELD_OUT,
    zorder=6,
    path_effects=[patheffects.withStroke(linewidth=4, foreground='white')],
  )


def summary(rows: Sequence[Row], header: Row) -> str:
  """Returns the run on one screen: at most 24 lines of 80 columns.

  Args:
    rows: as `metrics.read` gives them; what they lack is left out.
    header: any of method, task, model, parameters (a count), seed, device,
      workdir, processes, and command (as `shlex.join` wrote it).
  """
  lines = [
    x if len(x) <= COLUMNS else x[: COLUMNS - 1] + '…'
    for x in _facts(rows, header)
  ]
  if workdir := header.get('workdir'):
    path, width = str(workdir), COLUMNS - 15  # its end tells runs apart
    path = path if len(path) <= width else '…' + path[1 - width :]
    lines.append(_entry('files', path))
  command = list(_command(str(header.get('command', ''))))
  if (n := _number(header, 'processes') or 1) > 1:  # of a launcher's command
    command = [_entry('repeat', f'the command that started {n:.0f} processes')]
  widest = max(map(len, command), default=0)
  if len(lines + command) > LINES or widest > COLUMNS:
    command = [_entry('repeat', 'the command in header.json')]
  return '\n'.join(lines + command) + '\n'


def _facts(rows: Sequence[Row], header: Row) -> Iterator[str]:
  what = [str(header[k]) for k in ('method', 'task') if header.get(k)]
  if what:
    yield ' on '.join(what)
  n = _number(header, 'parameters')
  size = None if n is None else f'{count(n)} parameters'
  if model := [str(text) for text in (header.get('model'), size) if text]:
    yield _entry('model', ', '.join(model))
  for name in ('seed', 'device'):
    if header.get(name) is not None:
      yield _entry(name, str(header[name]))
  game = list(_game_lines(rows))
  yield from game or _held_out_lines(judge(rows))
  yield from _forgetting_lines(rows)
  yield from _training_lines(rows)
  yield from _task_lines(rows)
  yield from _judge_lines(rows)
  yield from _skipped_lines(rows)
  for i, text in enumerate(no_gradient.lines(rows)):
    yield _entry('' if i else 'NOT LEARNED', text)
  if total := sum(_number(row, 'rollout/tokens') or 0 for row in rows):
    yield _entry('tokens', f'{count(total)} sampled')
  if spent := _seconds_by_phase(rows):
    text = ', '.join(f'{p} {duration(s)}' for p, s in spent.items())
    yield _entry('wall time', f'{duration(sum(spent.values()))} ({text})')


def _held_out_lines(verdict: Verdict) -> Iterator[str]:
  before, after, start = verdict
  named = [(start, before), ('after RL', after)]
  named = [(name, e) for name, e in named if e is not None]
  if named:
    yield 'held-out success, 95% interval'
  for name, e in named:
    of = '' if e.episodes is None else f'  {e.solved}/{e.episodes} episodes'
    yield _entry(
      f'  {name}',
      f'{e.success:6.1%}  [{e.low:.1%}, {e.high:.1%}]{of}  at step {e.step}',
    )
  if len(named) == 2 and before.episodes and after.episodes:
    low, high = intervals.difference(
      after.solved, after.episodes, before.solved, before.episodes
    )
    gain = after.solved / after.episodes - before.solved / before.episodes
    few = after.tasks is not None and after.tasks < after.episodes
    yield _entry(
      '  difference',
      f'{100 * gain:+5.1f}   [{100 * low:+.1f}, {100 * high:+.1f}] points'
      + f' on these {after.tasks} tasks' * few,
    )
  turns = [f'{e.turns:.1f} {name}' for name, e in named if e.turns is not None]
  if turns:
    yield _entry('turns/episode', ', '.join(turns))


def _game_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Says how good the policy is at a game that it plays with itself.

  In place of its success, which is what one of its seats takes from another.
  """
  if not any(_number(row, 'eval/seats') for row in rows):
    return
  phases = [row.get('phase') for row in rows]
  begin = phases.index('rl') if 'rl' in phases else len(rows)
  each = [
    _series(part, 'step', 'eval/exploitability')[:, 1]
    for part in (rows[:begin], rows[begin:])
  ]
  start = 'warm start' if 'sft' in phases[:begin] else 'before RL'
  named = [
    f'{values[-1]:.3g} {name}'
    for name, values in zip((start, 'after RL'), each, strict=True)
    if len(values)
  ]
  if named:
    yield _entry('exploitability', ', '.join(named))
  rating = _series(rows, 'step', 'league/rating')[:, 1]
  if named and len(rating):
    yield _entry('rating', f'{rating[-1]:+.0f} Elo since it began')


def _forgetting_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Writes task sets' held-out success at the ends of stages, a line a set."""
  names = task_sets(rows)
  ends = [row for row in rows if any(f'eval/{x}/success' in row for x in names)]
  if not ends:
    return
  yield 'held-out success at the ends of stages, of the tasks of stage'
  width = max(8, *(len(stage_of(row, rows)) for row in ends))
  yield _entry('', ' '.join(f'{stage_of(x, rows):>{width}}' for x in ends))
  for name in names:
    each = [_number(row, f'eval/{name}/success') for row in ends]
    percents = ['' if x is None else f'{x:.1%}' for x in each]
    yield _entry(f'  {name}', ' '.join(f'{x:>{width}}' for x in percents))


def stage_of(row: Row, rows: Sequence[Row]) -> str:
  """Names the stage of the row's step; of an evaluation, the one before it."""
  trained = [x for x in rows if x.get('phase') != 'eval']
  mine = [x for x in trained if x.get('step') == row.get('step')]
  return str(mine[0].get('stage', mine[0].get('phase'))) if mine else 'start'


def _training_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Yields steps of each stage and the training success at both ends of RL."""
  trained = [row for row in rows if row.get('phase') in ('sft', 'rl')]
  names = [str(row.get('stage', row['phase'])) for row in trained]
  if counts := [f'{n} {name}' for name, n in Counter(names).items()]:
    yield _entry('steps', ', '.join(counts))
  y = _series(rows, 'step', 'rollout/success')[:, 1]
  if len(y):
    n = max(1, len(y) // 20)
    yield _entry(
      'training',
      f'{y[:n].mean():.1%} solved at first, {y[-n:].mean():.1%} at last'
      + (f' (means of {n} steps)' if n > 1 else ''),
    )


def _task_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Says how often tasks were attempted, where a memory counted it."""
  counted = [row for row in rows if 'tasks/attempted' in row]
  if not counted:
    return
  total, attempted, mean, most, never, always = (
    _number(counted[-1], f'tasks/{name}') or 0.0
    for name in (
      'total',
      'attempted',
      'attempts',
      'attempts_max',
      'never_solved',
      'always_solved',
    )
  )
  yield _entry(
    'tasks',
    f'{count(attempted)} of {count(total)} attempted, {mean:.1f} times each'
    f' (most: {count(most)})',
  )
  yield _entry(
    '', f'{never:.0%} of them never solved, {always:.0%} never failed'
  )


def _judge_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Says what judges were asked, and if their scores part from the truth."""
  pattern = re.compile('rollout/judge/(.+)/items')
  matches = [pattern.fullmatch(name) for row in rows for name in row]
  for judge_name in dict.fromkeys(m[1] for m in matches if m):
    place = f'rollout/judge/{judge_name}'
    items, questions, unscored = (
      sum(_number(row, f'{place}/{x}') or 0 for row in rows)
      for x in ('items', 'questions', 'unscored')
    )
    put = f', {count(questions)} questions' if questions else ''
    failed = f', {count(unscored)} without a score' if unscored else ''
    yield _entry('judge', f'{judge_name}: {count(items)} items{put}{failed}')
    y = _series(rows, 'step', f'{place}/score')[:, 1]
    if len(y):
      yield _entry('', _trend(y, judge(rows)))


def _trend(y: np.ndarray, held_out: Verdict) -> str:
  """Compares scores at both ends of a run, and whether success followed.

  They diverge where the last fifth of the scores is above the first by more
  than two standard errors, and held-out success has not risen by more than its
  95% interval: the judge pays for what does not solve tasks.
  """
  n = max(1, len(y) // 5)
  first, last = y[:n], y[-n:]
  text = f'mean score {first.mean():.3g}, then {last.mean():.3g}'
  before, after, _ = held_out
  if n < 2 or not (before and after and before.episodes and after.episodes):
    return text
  error = np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / n)
  low, _ = intervals.difference(
    after.solved, after.episodes, before.solved, before.episodes
  )
  if last.mean() - first.mean() > 2 * error and low <= 0:
    return f'{text}: DIVERGES from held-out success'
  return text


def _skipped_lines(rows: Sequence[Row]) -> Iterator[str]:
  """Yields steps whose updates were skipped: they had no finite gradient."""
  parts = []
  for name in sorted({name for row in rows for name in row}):
    role, slash, metric = name.rpartition('/')
    if metric == 'nonfinite_skips' and slash:
      y = _series(rows, 'step', name)[:, 1]
      if skipped := int(np.sum(y > 0)):
        parts.append(f'{skipped} of {len(y)} ({role})')
  if parts:
    text = f'steps with no finite gradient: {", ".join(parts)}'
    yield _entry('skipped', text)


def _seconds_by_phase(rows: Sequence[Row]) -> dict[str, float]:
  """Splits the cumulative clock; one that was set back counts from zero."""
  spent: dict[str, float] = {}
  last = 0.0
  for row in rows:
    now = _number(row, 'time/seconds')
    if now is None:
      continue
    phase = str(row.get('phase', 'run'))
    spent[phase] = spent.get(phase, 0.0) + (now - last if now >= last else now)
    last = now
  return spent


def _entry(name: str, value: str) -> str:
  return f'{name:<14} {value}'


def count(n: float) -> str:
  """Writes three digits of a large number: 1.6e5 is 160k."""
  for size, letter in ((1e9, 'B'), (1e6, 'M'), (1e3, 'k')):
    if abs(n) >= 0.9995 * size:  # 999 999 is 1M, not 1e+03k
      return f'{n / size:.3g}{letter}'
  return f'{n:.0f}'


def _command(command: str) -> Iterator[str]:
  """Breaks a command between shell words, so that it can be pasted."""
  if not command:
    return
  yield 'repeat with'
  line = ' '
  for word in map(shlex.quote, shlex.split(command)):
    if len(line) + 1 + len(word) > COLUMNS - 2 and line.strip():
      yield line + ' \\'
      line = '   '
    line += ' ' + word
  yield line
