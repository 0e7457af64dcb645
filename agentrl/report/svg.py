"""A comparison's pictures as SVG inside the page; colours are the page's."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agentrl.report import numbers as numbers_lib
from agentrl.report.html import Markup, element, join

COLORS = 8  # of the style sheet, for light and dark
SHAPES = (
  'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0',
  'M-3.6-3.6h7.2v7.2h-7.2z',
  'M0-4.8L4.6 3.6H-4.6z',
  'M0-5L5 0L0 5L-5 0z',
  'M0 4.8L4.6-3.6H-4.6z',
  'M-4.6-1.5h3.1v-3.1h3v3.1h3.1v3h-3.1v3.1h-3v-3.1h-3.1z',
)


class Look(NamedTuple):
  """How one arm looks everywhere: told apart also without colour."""

  label: str
  part: str  # method: a line; ablation: dashed; control: dotted
  color: int
  shape: int

  @property
  def style(self) -> str:
    return f'c{self.color} {self.part}'


class Scale(NamedTuple):
  """Maps [low, high] to [start, end] of a picture."""

  low: float
  high: float
  start: float
  end: float

  def __call__(self, x: float) -> float:
    share = (x - self.low) / ((self.high - self.low) or 1.0)
    return round(self.start + share * (self.end - self.start), 2)


def looks(report: Mapping) -> dict[str, Look]:
  """A look for each arm: the methods' colours from the front, others' back."""
  parts, labels = {}, {}
  for env in report.get('envs', {}).values():
    for setting in env.get('settings', {}).values():
      for name, arm in setting.get('arms', {}).items():
        parts.setdefault(name, arm.get('part') or 'method')
        labels.setdefault(name, arm.get('label') or name)
  out, seen = {}, {True: 0, False: 0}
  for name, part in parts.items():
    own = part == 'method'
    i = seen[own]
    seen[own] += 1
    color = i % COLORS if own else COLORS - 1 - i % COLORS
    out[name] = Look(labels[name], part, color, i % len(SHAPES))
  return out


def look_of(name: str, known: Mapping[str, Look]) -> Look:
  """An arm that never ran has no colour of its own."""
  return known.get(name) or Look(name, 'method', 6, 0)


def marker(x: float, y: float, look: Look) -> Markup:
  return element(
    'path',
    d=SHAPES[look.shape],
    transform=f'translate({x} {y})',
    class_='marker',
  )


def swatch(look: Look) -> Markup:
  """A piece of the arm's line, for legends and tables."""
  return element(
    'svg',
    element('path', d='M1 7H33', class_='line'),
    marker(17, 7, look),
    class_=f'swatch {look.style}',
    viewBox='0 0 34 14',
    aria_hidden='true',
  )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
  """Round numbers from low to high: steps of 1, 2 or 5 times a power of 10."""
  if not high > low:
    return [low]
  power = 10.0 ** math.floor(math.log10((high - low) / most))
  step = next(
    m * power for m in (1, 2, 5, 10) if (high - low) / (m * power) <= most
  )
  first = math.ceil(low / step - 1e-9)
  last = math.floor(high / step + 1e-9)
  return [round(i * step, 12) for i in range(first, last + 1)]


def points(curve: Mapping | None, *names: str) -> list[tuple[float, ...]]:
  """(x, ...) of a curve where all of them are there."""
  columns = [(curve or {}).get(name, ()) for name in ('x', *names)]
  rows = zip(*columns, strict=False)
  return [row for row in rows if all(map(numbers_lib.is_number, row))]


_WIDE, _TALL = 540, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 524, 38, 276


def curves(
  drawn: Sequence[tuple[Look, Mapping | None]], x_label: str
) -> Markup | None:
  """Success over x: means, bands within [0, 1]; None if there is no point."""
  drawn = [(look, c) for look, c in drawn if points(c, 'mean')]
  if not drawn:
    return None
  right = max(p[0] for _, c in drawn for p in points(c, 'mean'))
  shown = [
    p[-1]
    for _, c in drawn
    for name in ('mean', 'low', 'high')
    for p in points(c, name)
  ]
  x = Scale(0, right or 1.0, _LEFT, _RIGHT)
  y = Scale(*_room(shown), _BOTTOM, _TOP)
  return element(
    'svg',
    element('title', f'success over {x_label}'),
    _axes(x, y, x_label),
    *(_band(c, x, y, look) for look, c in drawn),
    *(_line(c, x, y, look) for look, c in drawn),
    viewBox=f'0 0 {_WIDE} {_TALL}',
    class_='chart',
    role='img',
    aria_label=f'Success over {x_label}: '
    + ', '.join(look.label for look, _ in drawn),
  )


def _room(values: Sequence[float]) -> tuple[float, float]:
  """The tenths of [0, 1] around the values: slow learning is to be seen too."""
  low = math.floor(10 * max(min(values), 0.0) + 1e-9) / 10
  high = math.ceil(10 * min(max(values), 1.0) - 1e-9) / 10
  return min(low, 0.9), max(high, min(low, 0.9) + 0.1)


def _axes(x: Scale, y: Scale, x_label: str) -> Markup:
  up = [(f'{t:.0%}', y(t)) for t in ticks(y.low, y.high)]
  along = [(numbers_lib.count(t), x(t)) for t in ticks(x.low, x.high, 5)]
  return join(
    *(
      element('path', d=f'M{_LEFT} {at}H{_RIGHT}', class_='grid')
      for _, at in up
    ),
    *(text(t, _LEFT - 8, at + 5, 'end') for t, at in up),
    *(text(t, at, _BOTTOM + 21, 'middle') for t, at in along),
    text('success', _LEFT - 50, _TOP - 21, 'start'),
    text(x_label, (_LEFT + _RIGHT) / 2, _TALL - 8, 'middle'),
  )


def text(words: str, x: float, y: float, anchor: str) -> Markup:
  return element('text', words, x=x, y=y, text_anchor=anchor)


def _band(curve: Mapping, x: Scale, y: Scale, look: Look) -> Markup | None:
  rows = points(curve, 'low', 'high')
  if len(rows) < 2:
    return None
  there = [f'{x(a)} {y(min(high, 1.0))}' for a, _, high in rows]
  back = [f'{x(a)} {y(max(low, 0.0))}' for a, low, _ in reversed(rows)]
  d = 'M' + 'L'.join(there + back) + 'z'
  return element('path', d=d, class_=f'band c{look.color}')


def _line(curve: Mapping, x: Scale, y: Scale, look: Look) -> Markup:
  rows = points(curve, 'mean')
  last = rows[-1]
  return element(
    'g',
    element('title', f'{look.label}: {last[1]:.1%} at last'),
    polyline([(x(a), y(mean)) for a, mean in rows]),
    marker(x(last[0]), y(last[1]), look),
    class_=look.style,
  )


def polyline(through: Iterable[tuple[float, float]]) -> Markup:
  d = 'L'.join(f'{x} {y}' for x, y in through)
  return element('path', d=f'M{d}' if d else '', class_='line')


_STRIP = 150, 34  # a picture inside a table's cell


def reach(values: Sequence[float | None]) -> tuple[float, float]:
  """The least interval with all numbers in it, a little wider."""
  kept = [v for v in values if numbers_lib.is_number(v)] or [0.0]
  low, high = min(kept), max(kept)
  room = 0.06 * (high - low) or 0.5
  return low - room, high + room


def strip(
  each: Sequence[float | None],
  found: Mapping,
  span: tuple[float, float],
  look: Look,
) -> Markup:
  """A dot for each run above the mean and its interval."""
  wide, _ = _STRIP
  x = Scale(*span, 4, wide - 4)
  kept = [v for v in each if numbers_lib.is_number(v)]
  # Three heights, so that equal runs stay countable.
  dots = (
    element('circle', cx=x(v), cy=6 + 5 * (i % 3), r=2.6, class_='dot')
    for i, v in enumerate(kept)
  )
  return _cell(
    join(*dots, _interval(found, x, 26)),
    f'c{look.color}',
    f'{len(kept)} runs of {look.label}',
  )


def forest(
  found: Mapping, span: tuple[float, float], claimed: float | None = None
) -> Markup:
  """A difference and its interval beside 0; a hollow diamond: the claim."""
  wide, tall = _STRIP
  x = Scale(*span, 8, wide - 8)
  ends = [found.get(name) for name in ('low', 'high')]
  sure = all(map(numbers_lib.is_number, ends)) and ends[0] * ends[1] > 0
  said = (
    element(
      'path',
      d='M0-6L6 0L0 6L-6 0z',
      class_='claimed',
      transform=f'translate({x(claimed)} {tall / 2})',
    )
    if numbers_lib.is_number(claimed)
    else None
  )
  return _cell(
    join(
      element('path', d=f'M{x(0)} -99V{tall + 99}', class_='zero'),
      _interval(found, x, tall / 2),
      said,
    ),
    'sure' if sure else 'unsure',
    'difference and interval beside zero',
  )


def _interval(found: Mapping, x: Scale, y: float) -> Markup:
  low, mean, high = (found.get(name) for name in ('low', 'mean', 'high'))
  bar = numbers_lib.is_number(low) and numbers_lib.is_number(high)
  return join(
    element('path', d=f'M{x(low)} {y}H{x(high)}', class_='bar')
    if bar
    else None,
    element('circle', cx=x(mean), cy=y, r=4, class_='mean')
    if numbers_lib.is_number(mean)
    else None,
  )


def _cell(content: Markup, style: str, label: str) -> Markup:
  wide, tall = _STRIP
  return element(
    'svg',
    content,
    class_=f'strip {style}',
    viewBox=f'0 0 {wide} {tall}',
    role='img',
    aria_label=label,
  )
