"""Dose and response of step rewards: curves, and what they predict.

A curve is the gain over the reference by the measured correlation of the step
reward with the exact advantage, for each kind of error. Of a learned reward
with correlation ρ and persistence of its error within states p, clipped to
[0, 1], the prediction is

  (1 − p) g_white(ρ) + p g_state_action(ρ),

g by straight lines between the measured points, and its end points beyond
them. Nothing is fitted to the learned rewards.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

CORRELATIONS = (0.0, 0.1, 0.2, 0.4, 0.7)
# Errors of `signal.degraded_truth`, and what they are called on pages.
KINDS = {
  'white': 'drawn afresh',
  'trajectory': 'of the trajectory',
  'late': 'grows with the turn',
  'state': 'of the state, lasting',
  'state_action': 'of state and action, lasting',
}
EXACT = 'advantage'  # the arm at the end of every curve
REFERENCE = 'grpo'
CORRELATION = 'correlation with the advantage'
PERSISTENCE = 'persistence of the error within states'
METRICS = {  # of a report: label -> metric
  CORRELATION: 'early step correlation',
  PERSISTENCE: 'early step persistence within states',
  'correlation with progress': 'early step progress correlation',
}


class Point(NamedTuple):
  """A step reward in one world."""

  label: str
  correlation: float
  persistence: float
  gain: float  # of area over the reference, as low and high
  low: float
  high: float


def points(
  report: Mapping[str, Any], env: str, setting: str
) -> dict[str, Point]:
  """{arm: point} of the arms that have a step reward."""
  here = report['envs'][env]['settings'][setting]
  gains = {
    x['arm']: x
    for x in here['comparisons']
    if (x['measure'], x['baseline']) == ('area', REFERENCE)
  }
  out = {}
  for name, arm in here['arms'].items():
    metrics = arm['told']
    if CORRELATION in metrics and name in gains:
      gain = (gains[name][k] for k in ('mean', 'low', 'high'))
      out[name] = Point(
        arm['label'], metrics[CORRELATION], metrics[PERSISTENCE], *gain
      )
  return out


def curve(of: Mapping[str, Point], error: str) -> list[Point]:
  """The points of a kind of error by rising correlation, then the truth."""
  names = [arm_name(error, x) for x in CORRELATIONS]
  return sorted([of[x] for x in (*names, EXACT)], key=lambda x: x.correlation)


def arm_name(error: str, correlation: float) -> str:
  return f'{error}_{100 * correlation:.0f}'


def learned(of: Mapping[str, Point]) -> dict[str, Point]:
  """The points that no error was planted in."""
  planted = {arm_name(e, x) for e in KINDS for x in CORRELATIONS}
  return {k: x for k, x in of.items() if k not in planted | {EXACT}}


def predict(of: Mapping[str, Point], one: Point) -> float:
  """The gain that the curves say for a reward like this."""
  fresh, lasting = (
    np.interp(
      one.correlation,
      [x.correlation for x in curve(of, error)],
      [x.gain for x in curve(of, error)],
    )
    for error in ('white', 'state_action')
  )
  p = min(max(one.persistence, 0.0), 1.0)
  return float((1 - p) * fresh + p * lasting)


def table(report: Mapping[str, Any], setting: str = 'tuned') -> str:
  """Correlation, persistence, predicted and measured gain, in Markdown."""
  lines = [
    '| world | step reward | correlation | persistence | predicted | gain [95%]'
    ' |',
    '|---|---|---|---|---|---|',
  ]
  for env in report['envs']:
    of = points(report, env, setting)
    for name, x in of.items():
      predicted = ''
      if name in learned(of):
        predicted = f'{100 * predict(of, x):+.1f}'
      gain, low, high = (f'{100 * y:+.1f}' for y in (x.gain, x.low, x.high))
      lines.append(
        f'| {env} | {x.label} | {x.correlation:.2f} | {x.persistence:.2f}'
        f' | {predicted} | {gain} [{low}, {high}] |'
      )
  return '\n'.join(lines)


def picture(
  report: Mapping[str, Any],
  path_png: str | os.PathLike[str],
  setting: str = 'tuned',
) -> None:
  """A panel for each world: gain by correlation, a line for each error."""
  envs = report['envs']
  size = 2.4 + 4.6 * len(envs), 4.6
  figure = Figure(figsize=size, dpi=100, layout='constrained')
  canvas = FigureCanvasAgg(figure)
  panels = figure.subplots(1, len(envs), squeeze=False)[0]
  for axes, env in zip(panels, envs, strict=True):
    of = points(report, env, setting)
    axes.axhline(0, color='#777777', lw=0.8)
    for i, (error, label) in enumerate(KINDS.items()):
      _line(axes, curve(of, error), f'C{i}', label)
    for name, x in learned(of).items():
      _mark(axes, x, predict(of, x), name)
    axes.set_title(envs[env]['label'].split(':')[0], fontsize=10)
    axes.set_xlabel('correlation with the exact advantage, measured')
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(axis='y', color='#e4e4e4')
    axes.set_axisbelow(True)
  panels[0].set_ylabel('gain over GRPO, points of area [95%]')
  handles, labels = panels[0].get_legend_handles_labels()
  figure.legend(
    handles,
    labels,
    loc='outside right center',
    frameon=False,
    title='error of the reward',
  )
  canvas.print_png(os.fspath(path_png))


def _line(axes, along: Sequence[Point], color: str, label: str) -> None:
  x = [p.correlation for p in along]
  y = np.array([(p.gain, p.low, p.high) for p in along]) * 100
  axes.plot(x, y[:, 0], color=color, marker='o', markersize=3.5, label=label)
  axes.fill_between(x, y[:, 1], y[:, 2], color=color, alpha=0.15, lw=0)


def _mark(axes, one: Point, predicted: float, name: str) -> None:
  """A learned reward with its interval, and above it what was predicted."""
  low, high = 100 * (one.gain - one.low), 100 * (one.high - one.gain)
  axes.errorbar(
    one.correlation, 100 * one.gain, [[low], [high]], color='black', fmt='s',
    markersize=4, lw=1,
  )  # fmt: skip
  axes.plot(one.correlation, 100 * predicted, 'x', color='black', markersize=5)
  axes.annotate(
    name,
    (one.correlation, 100 * one.gain),
    xytext=(5, 3),
    textcoords='offset points',
    fontsize=7,
  )
