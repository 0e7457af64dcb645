"""Figures of a comparison: success by step, score by learning rate."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup
from matplotlib import ticker

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg
from agentrl.report.svg import Look

_APART = 55  # what two labels of rates need


def points(curve: Mapping | None, *names: str) -> list[tuple[float, ...]]:
  """Returns the points (x, ...) of a curve that have all values."""
  columns = [(curve or {}).get(name, ()) for name in ('x', *names)]
  rows = zip(*columns, strict=False)
  return [row for row in rows if all(map(numbers_lib.is_number, row))]


@svg.in_style()
def curves(
  arms: Sequence[tuple[Look, Mapping | None]], x_label: str
) -> Markup | None:
  """Plots success over x with bands in [0, 1]; None without a point."""
  arms = [(look, c) for look, c in arms if points(c, 'mean')]
  if not arms:
    return None
  figure, on = svg.axes((540, 330), (56, 524, 38, 276))
  heights = []
  for look, c in arms:
    rows = points(c, 'low', 'high')
    if len(rows) > 1:
      x = [row[0] for row in rows]
      low = [max(row[1], 0.0) for row in rows]
      high = [min(row[2], 1.0) for row in rows]
      svg.band(on, x, low, high, look)
      heights += [*low, *high]
  for look, c in arms:
    rows = points(c, 'mean')
    title = f'{look.label}: {rows[-1][1]:.1%} at last'
    svg.line(on, rows, look, title)
    heights += [mean for _, mean in rows]
  right = max(points(c, 'mean')[-1][0] for _, c in arms)
  on.set(xlim=(0, right or 1.0), ylim=tenths(heights), xlabel=x_label)
  on.set_title('success', x=-50 / 468, pad=16)
  on.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
  on.xaxis.set_major_formatter(lambda x, _: numbers_lib.count(x))
  on.yaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
  on.yaxis.set_major_formatter(ticker.PercentFormatter(1, decimals=0))
  names = ', '.join(look.label for look, _ in arms)
  return svg.draw(figure, f'Success over {x_label}: {names}')


def tenths(values: Sequence[float]) -> tuple[float, float]:
  """Rounds the range of values to tenths, so slow learning stays visible."""
  low = math.floor(10 * max(min(values), 0.0) + 1e-9) / 10
  high = math.ceil(10 * min(max(values), 1.0) - 1e-9) / 10
  return min(low, 0.9), max(high, min(low, 0.9) + 0.1)


@svg.in_style()
def grid(one: Mapping, look: Look, span: tuple[float, float]) -> Markup:
  """Plots score over log learning rate: a dot per seed, a line of means.

  The chosen rate is a vertical line with a ring at its mean. The outermost
  rates are labelled, and the chosen one if there is room.
  """
  figure, on = svg.axes((230, 126), (16, 214, 12, 100))
  rates = [rate for rate, _ in one['grid']]
  means = {r: m for r, m in mean_scores(one).items() if m is not None}
  best, rule = one.get('best'), svg.VARIABLE['rule']
  on.set(xscale='log', ylim=span)
  on.set_xlim(rates[0] / 10**0.1, rates[-1] * 10**0.1)
  dots = zip(*scores(one), strict=True) if scores(one) else ([], [])
  on.plot(*dots, 'o', color=look.ink, alpha=0.55, ms=5.2, mew=0)
  if means:
    svg.line(on, list(means.items()), look._replace(part=''), lw=1.6, marker='')
  if best in means:
    on.axvline(best, color=rule, linewidth=1.4, zorder=0)
    ink = svg.VARIABLE['ink']
    on.plot(
      best, means[best], 'o', ms=16, mfc='none', mec=ink, mew=1.4, clip_on=False
    )
  on.axhline(span[0], color=rule, linewidth=1, clip_on=False)
  at = {r: on.transData.transform((r, 0))[0] for r in rates}
  ends = {rates[0], rates[-1]}
  room = best in at and all(abs(at[best] - at[r]) > _APART for r in ends)
  on.set_xticks(sorted(ends | ({best} if room else set())), minor=False)
  on.xaxis.set_minor_locator(ticker.NullLocator())
  on.xaxis.set_major_formatter(lambda x, _: numbers_lib.rate(x))
  on.set_yticks([])
  label = f'{look.label}: score over learning rate'
  return svg.draw(figure, label, f'tuning c{look.color}')


def scores(one: Mapping) -> list[tuple[float, float]]:
  """Lists (rate, score) of each seed that has a score."""
  return [
    (rate, score)
    for rate, scores in one.get('grid', ())
    for score in scores
    if numbers_lib.is_number(score)
  ]


def mean_scores(one: Mapping) -> dict[float, float | None]:
  """Returns rate -> mean score of the seeds that have one."""
  by_rate = {rate: [] for rate, _ in one.get('grid', ())}
  for rate, score in scores(one):
    by_rate[rate].append(score)
  return {r: sum(s) / len(s) if s else None for r, s in by_rate.items()}
