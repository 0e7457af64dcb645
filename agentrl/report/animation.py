"""Pictures of jit environments: boards as figures, episodes as GIFs."""

import os
from collections.abc import Sequence

from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from agentrl.serve.play import Frame

GROUND, WALL, BOX, PLAYER = '#eef2f5', '#4a5560', '#b5813f', '#2a6099'
GOAL, HOLE = '#2a8a4a', '#1d2b3a'
# Symbol -> colours of the cell, of a square on it and of a disc on it.
# Sokoban and FrozenLake share letters, with S and X of their own.
SYMBOLS: dict[str, tuple[str, str, str]] = {
  '#': (WALL, '', ''),
  '_': (GROUND, '', ''),
  'O': (GROUND, '', 'target'),
  'X': (GROUND, BOX, ''),
  '*': (GROUND, GOAL, ''),
  'P': (GROUND, '', PLAYER),
  'S': (GROUND, '', PLAYER),
}
LAKE = SYMBOLS | {
  'H': (HOLE, '', ''),
  'S': (GROUND, '', ''),
  'G': (GOAL, '', ''),
  'X': (HOLE, '', PLAYER),
  '*': (GOAL, '', PLAYER),
}
SECONDS = 0.8  # of a frame


def draw(axes: Axes, text: str, caption: str) -> None:
  """Draws an observation: a board of symbols, or its text as it is."""
  axes.clear()
  axes.axis('off')
  axes.set_title(caption, fontsize=10, family='monospace', loc='left')
  rows = board(text)
  if not rows:
    axes.text(
      0.5,
      0.5,
      text.strip(),
      ha='center',
      va='center',
      family='monospace',
      fontsize=14,
    )
    return
  height, width = len(rows), len(rows[0])
  axes.set(xlim=(0, width), ylim=(height, 0), aspect='equal')
  symbols = SYMBOLS if '#' in text else LAKE
  for y, row in enumerate(rows):
    for x, symbol in enumerate(row):
      ground, square, disc = symbols[symbol]
      axes.add_patch(
        Rectangle((x, y), 1, 1, facecolor=ground, edgecolor='white')
      )
      if square:
        axes.add_patch(Rectangle((x + 0.15, y + 0.15), 0.7, 0.7, color=square))
      if disc == 'target' or (symbol == 'S' and '#' in text):
        ring = dict(fill=False, edgecolor=GOAL, linewidth=3)
        axes.add_patch(Circle((x + 0.5, y + 0.5), 0.38, **ring))
      if disc == PLAYER:
        axes.add_patch(Circle((x + 0.5, y + 0.5), 0.26, color=PLAYER))


def board(text: str) -> list[str]:
  """Splits a board into rows; empty if the text is not a board."""
  rows = [line for line in text.splitlines() if set(line) <= set(LAKE)]
  same = len({len(row) for row in rows}) == 1
  return rows if same and len(rows) > 1 else []


def picture(texts: dict[str, str], path: str | os.PathLike[str]) -> None:
  """Draws several observations side by side under their names."""
  figure = Figure(figsize=(2.6 * len(texts), 2.9), dpi=100)
  figure.set_layout_engine('tight')
  canvas = FigureCanvasAgg(figure)
  for axes, (name, text) in zip(
    figure.subplots(1, len(texts), squeeze=False)[0], texts.items(), strict=True
  ):
    draw(axes, text, name)
  canvas.print_png(os.fspath(path))


def write(
  path: str | os.PathLike[str], title: str, frames: Sequence[Frame]
) -> str:
  """Writes an episode as a GIF; returns what to print."""
  figure = Figure(figsize=(3.2, 3.7), dpi=90)
  FigureCanvasAgg(figure)
  figure.suptitle(title, fontsize=9, x=0.03, ha='left')
  axes = figure.add_axes((0.04, 0.02, 0.92, 0.8))
  writer = PillowWriter(fps=1 / SECONDS)  # type: ignore[arg-type]
  with writer.saving(figure, os.fspath(path), dpi=90):
    for k, frame in enumerate(frames):
      end = '  solved' if frame.done and frame.score > 0.5 else ''
      draw(axes, frame.text, f'{k}  {frame.move}{end}' if k else 'start')
      # The end is seen for longer.
      for _ in range(3 if k == len(frames) - 1 else 1):
        writer.grab_frame()
  return f'{path}: {title}, {len(frames) - 1} moves'
