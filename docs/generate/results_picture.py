"""Draws what a comparison found: claims, or gains over its baseline, as SVG."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

SETTING = 'tuned'
MOST = 24  # rows of gains: the largest and the smallest
_RC = {
  'font.size': 9,
  'svg.fonttype': 'none',
  'svg.hashsalt': 'results',  # the same ids every time
  **{f'axes.spines.{x}': False for x in ('left', 'right', 'top')},
}


class Row(NamedTuple):
  """One difference, arm - baseline, in the unit of its measure."""

  text: str
  mean: float
  low: float
  high: float
  claimed: float | None
  certain: bool  # zero excluded after Holm's correction


def draw(report: Mapping[str, Any]) -> str:
  """Returns a forest plot: a column of rows below the name of each env."""
  groups = {
    env['label']: rows
    for name, env in report['envs'].items()
    if (rows := claims(report, name) or gains(report, env))
  }
  tall = sum(len(rows) + 2.2 for rows in groups.values())
  with matplotlib.rc_context(_RC):
    high = 0.21 * tall + 0.6  # inches
    figure = Figure(figsize=(9, high))
    heights = [len(rows) + 0.6 for rows in groups.values()]
    axes = figure.subplots(
      len(groups), squeeze=False, height_ratios=heights, sharex=True
    )[:, 0]
    for on, (label, rows) in zip(axes, groups.items(), strict=True):
      forest(on, label, rows)
    axes[-1].set_xlabel(
      'difference in points of success; | marks the claim'
      if report['claims']
      else 'gain in points of success over the budget'
    )
    figure.subplots_adjust(0.5, 0.5 / high, 0.98, 1 - 0.35 / high, hspace=0.25)
    out = io.StringIO()
    nothing = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    figure.savefig(out, format='svg', metadata=nothing, facecolor='white')
  return out.getvalue()


def claims(report: Mapping[str, Any], env: str) -> list[Row]:
  """Returns the measured claims of an env, those in points of success."""
  rows = []
  for claim in report['claims']:
    measure, x = report['measures'][claim['measure']], claim['found']
    here = claim['env'] == env and claim['setting'] == SETTING
    if here and x and measure['unit'] == 'points':
      claimed = measure['scale'] * claim['claimed']
      rows.append(_row(claim['text'], x, measure['scale'], claimed))
  return rows


def gains(report: Mapping[str, Any], env: Mapping[str, Any]) -> list[Row]:
  """Returns the largest and smallest gains of an env, in their order."""
  scale = next(iter(report['measures'].values()))['scale']
  largest = sorted(
    env['settings'][SETTING]['comparisons'], key=lambda x: -x['mean']
  )
  if len(largest) > MOST:
    largest = largest[: MOST // 2] + largest[-MOST // 2 :]
  return [_row(f'{x["arm"]} - {x["baseline"]}', x, scale) for x in largest]


def _row(
  text: str, x: Mapping, scale: float, claimed: float | None = None
) -> Row:
  low, mean, high = (scale * x[k] for k in ('low', 'mean', 'high'))
  return Row(text, mean, low, high, claimed, x['holm'] < 0.05)


def forest(on: Any, label: str, rows: Sequence[Row]) -> None:
  """Draws the rows from above; filled where zero is excluded."""
  on.set_title(label, loc='left', fontsize=9, x=-1.0)
  on.axvline(0.0, color='0.6', lw=0.8)
  for y, row in enumerate(rows):
    color = '#0b62a8' if row.certain else '0.45'
    fill = color if row.certain else 'white'
    on.plot([row.low, row.high], [y, y], color=color, lw=1.6)
    on.plot(row.mean, y, 'o', ms=4.5, color=color, mfc=fill)
    if row.claimed is not None:
      on.plot(row.claimed, y, '|', ms=9, mew=1.6, color='#c8501e')
  on.set(ylim=(len(rows) - 0.4, -0.6), yticks=range(len(rows)))
  on.set_yticklabels([row.text for row in rows])
  on.tick_params(axis='y', length=0)
