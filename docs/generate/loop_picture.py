"""Draws docs/images/loop.svg: the slots of the training loop and their order.

python -m docs.generate.loop_picture
"""

import pathlib

import matplotlib

matplotlib.use('svg')
from matplotlib import patches
from matplotlib import pyplot as plt

OUT = pathlib.Path('docs/images/loop.svg')
# Solid boxes with white text, and gray lines: readable on white and on black.
DATA, CREDIT, LINE = '#2a6099', '#8a4b9b', '#7d8590'
WIDTH, HEIGHT = 2.1, 0.95
TOP, BOTTOM = 2.6, 0.5
# Slot -> (left edge, bottom edge, colour, what it does).
SLOTS = {
  'task': (0.1, TOP, DATA, 'which tasks to attempt'),
  'rollout': (2.95, TOP, DATA, 'policy plays the world'),
  'reward': (5.65, TOP, DATA, 'reward of each turn'),
  'curate': (8.5, TOP, DATA, 'which data to train on'),
  'signal': (8.5, BOTTOM, CREDIT, 'values, PRM, judges'),
  'advantage': (5.65, BOTTOM, CREDIT, 'streams of links'),
  'loss': (2.95, BOTTOM, CREDIT, 'terms and gradient'),
  'policy': (0.1, BOTTOM, CREDIT, 'new parameters'),
}


def arrow(axes, start, end, style='-|>', **options):
  axes.add_patch(
    patches.FancyArrowPatch(
      start,
      end,
      arrowstyle=style,
      mutation_scale=13,
      linewidth=1.6,
      color=LINE,
      shrinkA=0,
      shrinkB=0,
      **options,
    )
  )


def box(axes, name: str) -> None:
  x, y, color, text = SLOTS[name]
  shape = patches.FancyBboxPatch(
    (x, y), WIDTH, HEIGHT, 'round,pad=0,rounding_size=0.12', fc=color, ec='none'
  )
  axes.add_patch(shape)
  middle = {'ha': 'center', 'va': 'center', 'color': 'white'}
  axes.text(x + WIDTH / 2, y + 0.62, name, size=13, weight='bold', **middle)
  axes.text(x + WIDTH / 2, y + 0.28, text, size=8.5, **middle)


def draw() -> plt.Figure:
  figure, axes = plt.subplots(figsize=(9, 3.5))
  axes.set(xlim=(0, 10.7), ylim=(0.1, 4.25))
  axes.set_aspect('equal')
  axes.axis('off')
  figure.subplots_adjust(0, 0, 1, 1)
  for name in SLOTS:
    box(axes, name)
  frame = patches.FancyBboxPatch(
    (2.75, TOP - 0.2),
    5.2,
    HEIGHT + 0.65,
    'round,pad=0,rounding_size=0.15',
    fc='none',
    ec=LINE,
    ls='--',
  )
  axes.add_patch(frame)
  label = {'ha': 'center', 'va': 'center', 'color': LINE, 'size': 10}
  axes.text(5.35, TOP + HEIGHT + 0.22, 'collect', weight='bold', **label)
  up, down = TOP + HEIGHT / 2, BOTTOM + HEIGHT / 2
  arrow(axes, (2.2, up), (2.72, up))
  arrow(axes, (5.08, up), (5.62, up), '<|-|>')
  arrow(axes, (7.98, up), (8.47, up))
  arrow(axes, (9.55, TOP - 0.03), (9.55, BOTTOM + HEIGHT + 0.03))
  arrow(axes, (8.47, down), (7.78, down))
  arrow(axes, (5.62, down), (5.08, down))
  arrow(axes, (2.92, down), (2.23, down))
  arrow(
    axes,
    (1.15, BOTTOM + HEIGHT + 0.03),
    (3.6, TOP - 0.03),
    connectionstyle='arc3,rad=-0.12',
  )
  axes.text(6.7, 2.02, 'memory: replay, read and written every step', **label)
  arrow(axes, (8.75, 2.02), (9.5, 2.02), '<|-|>', linestyle=':')
  return figure


def main() -> None:
  with matplotlib.rc_context({'svg.hashsalt': 'loop'}):
    draw().savefig(OUT, transparent=True, metadata={'Date': None})


if __name__ == '__main__':
  main()
