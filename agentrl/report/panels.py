"""Panels of pictures for pages: axes beside each other, the legend outside."""

import os
from collections.abc import Sequence
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

WIDTH, LEGEND = 4.4, 2.0  # inches, of a panel and of what stands beside them


def draw(
  count: int, height: float = 4.0, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
  """Returns a figure of `count` panels beside each other.

  Args:
    height: inches
    share_y: whether they have one scale
  """
  size = LEGEND + WIDTH * count, height
  figure = Figure(figsize=size, dpi=100, layout='constrained')
  FigureCanvasAgg(figure)
  panels = list(figure.subplots(1, count, sharey=share_y, squeeze=False)[0])
  for axes in panels:
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(axis='y', color='#e4e4e4')
    axes.set_axisbelow(True)
  return figure, panels


def explain(
  figure: Figure,
  handles: Sequence[Artist],
  labels: Sequence[str],
  title: str = '',
  where: Literal['upper', 'center', 'lower'] = 'center',
) -> None:
  """Returns a legend on the right of the panels."""
  figure.legend(
    handles,
    labels,
    title=title or None,
    loc=f'outside right {where}',  # type: ignore[call-overload]
    frameon=False,
    fontsize=9,
  )


def write(figure: Figure, path_png: str | os.PathLike[str]) -> None:
  figure.savefig(os.fspath(path_png), format='png')
