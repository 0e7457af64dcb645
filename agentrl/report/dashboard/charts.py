"""One metric of several runs as SVG inside the page; colours are the page's."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.report import svg
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard.curves import Piece
from agentrl.report.html import Markup, element, join
from agentrl.report.svg import Look, Scale

_WIDE, _TALL = 400, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 390, 26, 186
_FEW = 40  # points that are marked one by one
_UP = str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹')


class Curve(NamedTuple):
  """One run in a picture."""

  look: Look
  pieces: list[Piece]
  band: list[np.ndarray]  # [n, 3]: x, low, high
  begin: float | None  # of RL


class Unit(NamedTuple):
  """The power of ten that a picture's numbers are told in."""

  power: int

  @property
  def name(self) -> str:
    told = str(self.power).translate(_UP)
    return f'× 10{told}' if self.power else ''

  def __call__(self, y):
    return y / 10.0**self.power


def unit(values: np.ndarray) -> Unit:
  """None between 0.01 and 10 000; else thousands, millionths and so on."""
  most = float(np.max(np.abs(values), initial=0.0))
  if not most or 1e-2 <= most < 1e4:
    return Unit(0)
  return Unit(3 * math.floor(math.log10(most) / 3))


def chart(
  name: str, drawn: Sequence[Curve], steps: int, x_label: str
) -> Markup | None:
  """The picture; None if no run has a finite number of this name.

  Each value is thin, the mean of the last `steps` thick; a stage with few
  values has them marked instead.
  """
  y = np.concatenate([p.y for c in drawn for p in c.pieces] or [np.zeros(0)])
  x = np.concatenate([p.x for c in drawn for p in c.pieces] or [np.zeros(0)])
  if not np.any(np.isfinite(y)):
    return None
  told = unit(y[np.isfinite(y)])
  seen = [*y, *(v for c in drawn for b in c.band for v in b[:, 1:].flat)]
  across = Scale(float(x.min()), float(x.max()), _LEFT, _RIGHT)
  up = Scale(*svg.reach([told(float(v)) for v in seen]), _BOTTOM, _TOP)

  def place(points):
    return [
      (across(a), up(told(b))) for a, b in curves_lib.thin(points).tolist()
    ]

  return element(
    'svg',
    element('title', name),
    _axes(across, up, told, x_label),
    _begins(drawn, across),
    *(_band(c, place) for c in drawn),
    *(_run(c, place, steps) for c in drawn),
    viewBox=f'0 0 {_WIDE} {_TALL}',
    class_='chart',
    role='img',
    aria_label=f'{name}: ' + ', '.join(c.look.label for c in drawn),
  )


def _axes(x: Scale, y: Scale, told: Unit, x_label: str) -> Markup:
  up, along = (svg.ticks(scale.low, scale.high, 5) for scale in (y, x))
  return join(
    *(
      element('path', d=f'M{_LEFT} {y(t)}H{_RIGHT}', class_='grid') for t in up
    ),
    *(
      svg.text(words, _LEFT - 6, y(t) + 4, 'end')
      for t, words in zip(up, labels(up), strict=True)
    ),
    *(
      svg.text(words, x(t), _BOTTOM + 20, 'middle')
      for t, words in zip(along, labels(along), strict=True)
    ),
    svg.text(told.name, 0, 14, 'start') if told.name else None,
    svg.text(x_label, (_LEFT + _RIGHT) / 2, _TALL - 6, 'middle'),
  )


def labels(ticks: Sequence[float]) -> list[str]:
  """As many digits as tell neighbours apart; thousands are k."""
  step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(ticks[0]) or 1.0
  if ticks[-1] >= 10_000 and step >= 1000:
    return [f'{t / 1000:g}k' if t else '0' for t in ticks]
  digits = max(0, -math.floor(math.log10(step) + 1e-9))
  return [f'{t:z.{digits}f}'.replace('-', '\N{MINUS SIGN}') for t in ticks]


def _begins(drawn: Sequence[Curve], x: Scale) -> Markup:
  found = {c.begin for c in drawn if c.begin is not None}
  ends = sorted(x(at) for at in found if x.low < at < x.high)
  lines = (f'M{at} {_TOP}V{_BOTTOM}' for at in ends)
  return join(*(element('path', d=d, class_='begin') for d in lines))


def _band(curve: Curve, place) -> Markup:
  out = []
  for band in curve.band:
    there, back = place(band[:, [0, 2]]), place(band[::-1, [0, 1]])
    d = 'M' + 'L'.join(f'{x} {y}' for x, y in [*there, *back]) + 'z'
    out.append(element('path', d=d, class_=f'band c{curve.look.color}'))
  return join(*out)


def _run(curve: Curve, place, steps: int) -> Markup:
  """One run's lines; its name and last number show under the pointer."""
  last = curve.pieces[-1]
  there = np.flatnonzero(np.isfinite(last.y))
  told = f'{last.y[there[-1]]:.4g} at last' if len(there) else 'not finite'
  return element(
    'g',
    element('title', f'{curve.look.label}: {told}'),
    *(_piece(piece, curve.look, place, steps) for piece in curve.pieces),
    class_=curve.look.style,
  )


def _piece(piece: Piece, look: Look, place, steps: int) -> Markup:
  each = [place(points) for points in curves_lib.strokes(piece)]
  # A line from a lone point to itself is a dot.
  lines = [svg.polyline([*line, line[-1]]) for line in each]
  count = sum(map(len, each))
  if count == 1 or (piece.phase == 'eval' and count <= _FEW):
    dots = (svg.marker(x, y, look) for line in each for x, y in line)
    return join(*lines, *dots)
  if steps == 1 or piece.phase == 'eval' or not each:
    return join(*lines)
  mean = curves_lib.smooth(piece, steps)
  return join(
    element('g', *lines, class_='each'),
    svg.polyline(place(np.stack([mean.x, mean.y], axis=1))),
  )
