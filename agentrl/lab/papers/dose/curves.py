"""Dose and response of step rewards: curves, and what they predict.

A curve is the gain over the reference by the measured correlation of the step
reward with the exact advantage, for each kind of error; where that cannot be
computed it is the correlation with progress, the difference of the solver's
value, and the picture says so. Of a learned reward with correlation ρ and
persistence of its error within states p, clipped to [0, 1], the prediction is

  (1 − p) g_white(ρ) + p g_state_action(ρ),

g by straight lines between the measured points, and its end points beyond
them. Nothing is fitted to the learned rewards.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from agentrl.lab.study.spec import Arm, method_arm
from agentrl.report import panels

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
MARKS = 's^vDP*X<>hdp'  # of learned rewards
SHADES = ('black', '#c0392b', '#2471a3', '#7d3c98')  # of worlds
GAIN = 'gain over GRPO, points of area [95%]'
REFERENCE = 'grpo'
CORRELATION = 'correlation with the advantage'
PROGRESS = 'correlation with progress'  # where that cannot be computed
AXES = {
  CORRELATION: 'correlation with the exact advantage, measured',
  PROGRESS: f'{PROGRESS}, measured',
}
PERSISTENCE = 'persistence of the error within states'
METRICS = {  # of a report: label -> metric
  CORRELATION: 'early step correlation',
  PERSISTENCE: 'early step persistence within states',
  PROGRESS: 'early step progress correlation',
}


class Point(NamedTuple):
  """A step reward in one world."""

  label: str
  correlation: float
  persistence: float  # of its error; NaN where that was not measured
  gain: float  # of area over the reference, as low and high
  low: float
  high: float


def points(
  report: Mapping[str, Any], env: str, setting: str
) -> dict[str, Point]:
  """Returns {arm: point} of the arms that have a step reward."""
  here = report['envs'][env]['settings'][setting]
  gains = {
    x['arm']: x
    for x in here['comparisons']
    if (x['measure'], x['baseline']) == ('area', REFERENCE)
  }
  out = {}
  of = correlation_label(report, env, setting)
  for name, arm in here['arms'].items():
    metrics = arm['told']
    if of in metrics and name in gains:
      gain = (gains[name][k] for k in ('mean', 'low', 'high'))
      lasting = metrics.get(PERSISTENCE, np.nan)
      out[name] = Point(arm['label'], metrics[of], lasting, *gain)
  return out


def correlation_label(report: Mapping[str, Any], env: str, setting: str) -> str:
  """Picks CORRELATION where an arm of this world reports it, else PROGRESS."""
  arms = report['envs'][env]['settings'][setting]['arms'].values()
  return (
    CORRELATION if any(CORRELATION in x['told'] for x in arms) else PROGRESS
  )


def kinds(of: Mapping[str, Point]) -> list[str]:
  """Lists errors that were planted in this world, at every correlation."""
  return [e for e in KINDS if all(arm_name(e, x) in of for x in CORRELATIONS)]


def curve(of: Mapping[str, Point], error: str) -> list[Point]:
  """Sorts the points of a kind of error by correlation, then the truth."""
  names = [arm_name(error, x) for x in CORRELATIONS]
  return sorted([of[x] for x in (*names, EXACT)], key=lambda x: x.correlation)


def planted(error: str, correlation: float, term: str = 'truth') -> Arm:
  """Makes the arm that knows each turn with that error.

  Where it correlates by 1 it is exact; the others take its rate.
  """
  exact = correlation == 1
  label = 'progress' if term == 'progress' else 'the advantage'
  return method_arm(
    EXACT if exact else arm_name(error, correlation),
    label if exact else f'{KINDS[error]}, {correlation:g}',
    'ablation',
    config='oprl_degraded',
    changes={
      'hp.signal.degraded_truth.term': term,
      'hp.signal.degraded_truth.error': error,
      'hp.signal.degraded_truth.correlation': correlation,
    },
    tuned_as='' if exact else EXACT,
  )


def arm_name(error: str, correlation: float) -> str:
  return f'{error}_{100 * correlation:.0f}'


def learned(of: Mapping[str, Point]) -> dict[str, Point]:
  """Returns the points that no error was planted in."""
  planted = {arm_name(e, x) for e in KINDS for x in CORRELATIONS}
  return {k: x for k, x in of.items() if k not in planted | {EXACT}}


def predict(of: Mapping[str, Point], one: Point) -> float:
  """Returns the gain that the curves say for a reward like this."""
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
  """Writes Markdown: correlation, persistence, predicted and measured gain."""
  lines = [
    '| world | step reward | correlation | persistence | predicted | gain [95%]'
    ' |',
    '|---|---|---|---|---|---|',
  ]
  for env in report['envs']:
    of = points(report, env, setting)
    for name, x in of.items():
      predicted = lasting = ''
      if np.isfinite(x.persistence):
        lasting = f'{x.persistence:.2f}'
        if name in learned(of):
          predicted = f'{100 * predict(of, x):+.1f}'
      gain, low, high = (f'{100 * y:+.1f}' for y in (x.gain, x.low, x.high))
      lines.append(
        f'| {env} | {x.label} | {x.correlation:.2f} | {lasting} | {predicted}'
        f' | {gain} [{low}, {high}] |'
      )
  return '\n'.join(lines)


def picture(
  report: Mapping[str, Any],
  path_png: str | os.PathLike[str],
  setting: str = 'tuned',
) -> None:
  """Draws gain by correlation, a panel per world; then predicted and measured.

  A line is a kind of error, a black mark a learned reward. In the last panel,
  which is there if a reward is learned, a mark stands on the diagonal where the
  curves predict what it gains.
  """
  envs = report['envs']
  by_world = [points(report, env, setting) for env in envs]
  compared = any(map(learned, by_world))
  figure, axes = panels.draw(len(envs) + compared, height=4.6)
  marks: dict[str, str] = {}  # of learned rewards, by their labels
  for panel, env, of in zip(axes, envs, by_world, strict=False):
    panel.axhline(0, color='#777777', lw=0.8)
    for error in kinds(of):
      color = f'C{list(KINDS).index(error)}'
      _line(panel, curve(of, error), color, KINDS[error])
    for x in learned(of).values():
      mark = marks.setdefault(x.label, MARKS[len(marks)])
      _measured(panel, x.correlation, x, mark, 'black')
    panel.set_title(_title(envs[env]), fontsize=10)
    panel.set_xlabel(AXES[correlation_label(report, env, setting)])
  axes[0].set_ylabel(GAIN)
  errors = axes[0].get_legend_handles_labels()
  panels.explain(figure, *errors, 'error of the reward', 'upper')
  if compared:
    _compare(axes[-1], list(map(_title, envs.values())), by_world, marks)
    handles = [
      Line2D([], [], color='black', ls='', marker=x) for x in marks.values()
    ]
    panels.explain(figure, handles, list(marks), 'step rewards', 'lower')
  panels.write(figure, path_png)


def _title(env: Mapping[str, Any]) -> str:
  return env['label'].split(':')[0]


def _line(axes, along: Sequence[Point], color: str, label: str) -> None:
  x = [p.correlation for p in along]
  y = np.array([(p.gain, p.low, p.high) for p in along]) * 100
  axes.plot(x, y[:, 0], color=color, marker='o', markersize=3, label=label)
  axes.fill_between(x, y[:, 1], y[:, 2], color=color, alpha=0.12, lw=0)


def _measured(axes, at: float, one: Point, mark: str, color: str) -> None:
  """Returns the gain of a reward with its interval."""
  y = 100 * one.gain
  reach = [[y - 100 * one.low], [100 * one.high - y]]
  axes.errorbar(at, y, reach, color=color, fmt=mark, markersize=5, lw=0.8)


def _compare(
  axes,
  titles: Sequence[str],
  by_world: Sequence[Mapping[str, Point]],
  marks: Mapping[str, str],
) -> None:
  """Compares what curves predict of learned rewards with what was measured."""
  for shade, title, of in zip(SHADES, titles, by_world, strict=False):
    for x in learned(of).values():
      _measured(axes, 100 * predict(of, x), x, marks[x.label], shade)
    axes.plot([], [], color=shade, lw=4, label=title)
  low, high = (f(axes.get_xlim() + axes.get_ylim()) for f in (min, max))
  axes.plot([low, high], [low, high], color='#777777', lw=0.8)
  axes.set_title('predicted and measured', fontsize=10)
  axes.set_xlabel('gain that correlation and persistence predict')
  axes.set_ylabel('gain measured [95%]')
  axes.legend(frameon=False, fontsize=8, loc='upper left')
