"""One metric of several runs as a figure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from agentrl.report import svg
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard.curves import Piece
from agentrl.report.svg import Look

_FEW = 40  # points that are marked one by one


class Curve(NamedTuple):
  """One run in a picture, or the mean of several, which stand behind it."""

  look: Look
  pieces: list[Piece]
  band: list[np.ndarray]  # [n, 3]: x, low, high
  begin: float | None  # of RL
  each: Sequence[Piece] = ()  # of the single runs, where this is their mean


@svg.in_style()
def chart(
  name: str, drawn: Sequence[Curve], steps: int, x_label: str
) -> Markup | None:
  """Returns the picture; None if no run has a finite number of this name.

  Each value is thin, the mean of the last `steps` thick; a stage with few
  values has them marked instead.
  """
  pieces = [p for curve in drawn for p in (*curve.pieces, *curve.each)]
  if not any(np.isfinite(piece.y).any() for piece in pieces):
    return None
  figure, on = svg.axes((400, 236), (52, 390, 26, 186))
  x = np.concatenate([piece.x for piece in pieces])
  bands = [band[:, 1:].ravel() for curve in drawn for band in curve.band]
  y = np.concatenate([*(piece.y for piece in pieces), *bands])
  low, high = float(x.min()), float(x.max())
  on.set(
    xlim=(low, high if high > low else low + 1),
    ylim=svg.reach(y.tolist()),
    xlabel=x_label,
  )
  for axis in (on.xaxis, on.yaxis):
    svg.label_ticks(axis)
  for at in {curve.begin for curve in drawn} - {None}:
    if x.min() < at < x.max():
      on.axvline(at, color=svg.VARIABLE['muted'], lw=1, ls=(0, (2, 4)))
  for curve in drawn:
    for band in curve.band:
      svg.band(on, *map(list, band.T), curve.look)
    for piece in curve.each:
      for stroke in curves_lib.strokes(piece):
        faint = dict(linewidth=0.8, alpha=0.3, markevery=[])
        svg.line(on, curves_lib.thin(stroke), curve.look, **faint)
  for curve in drawn:
    there = curve.pieces[-1].y
    there = there[np.isfinite(there)]
    last = f'{there[-1]:.4g} at last' if len(there) else 'not finite'
    for piece in curve.pieces:
      _piece(on, piece, curve.look, steps, f'{curve.look.label}: {last}')
  label = f'{name}: ' + ', '.join(curve.look.label for curve in drawn)
  return svg.draw(figure, label)


def _piece(on: Axes, piece: Piece, look: Look, steps: int, title: str) -> None:
  each = [curves_lib.thin(line) for line in curves_lib.strokes(piece)]
  count = sum(map(len, each))
  mark = count == 1 or (piece.phase == 'eval' and count <= _FEW)
  plain = steps == 1 or piece.phase == 'eval'
  style = {'linewidth': 1.9} if plain else {'linewidth': 1, 'alpha': 0.35}
  for line in each:
    # A line from a lone point to itself is a dot.
    points = [*line, line[-1]] if len(line) == 1 else line
    every = {'markevery': 1 if mark else []}
    svg.line(on, points, look, title, **style, **every, markersize=7)
  if each and not (mark or plain):
    mean = curves_lib.smooth(piece, steps)
    points = curves_lib.thin(np.stack([mean.x, mean.y], axis=1))
    svg.line(on, points, look, title, linewidth=1.9, markevery=[])
