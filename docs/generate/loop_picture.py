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
  'judge': (5.65, TOP, DATA, 'what turns are worth'),
  'reward': (8.35, TOP, DATA, 'reward of each turn'),
  'curate': (11.2, TOP, DATA, 'which data to train on'),
  'signal': (11.2, BOTTOM, CREDIT, 'values, PRM'),
  'advantage': (7.5, BOTTOM, CREDIT, 'streams of links'),
  'loss': (3.8, BOTTOM, CREDIT, 'terms and gradient'),
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
  figure, axes = plt.subplots(figsize=(11.3, 3.5))
  axes.set(xlim=(0, 13.4), ylim=(0.1, 4.25))
  axes.set_aspect('equal')
  axes.axis('off')
  figure.subplots_adjust(0, 0, 1, 1)
  for name in SLOTS:
    box(axes, name)
  frame = patches.FancyBboxPatch(
    (2.75, TOP - 0.2),
    7.9,
    HEIGHT + 0.65,
    'round,pad=0,rounding_size=0.15',
    fc='none',
    ec=LINE,
    ls='--',
  )
  axes.add_patch(frame)
  label = {'ha': 'center', 'va': 'center', 'color': LINE, 'size': 10}
  axes.text(6.7, TOP + HEIGHT + 0.22, 'collect', weight='bold', **label)
  up, down = TOP + HEIGHT / 2, BOTTOM + HEIGHT / 2
  arrow(axes, (2.2, up), (2.72, up))
  arrow(axes, (5.08, up), (5.62, up))
  arrow(axes, (7.78, up), (8.32, up))
  arrow(axes, (10.68, up), (11.17, up))
  arrow(axes, (12.25, TOP - 0.03), (12.25, BOTTOM + HEIGHT + 0.03))
  arrow(axes, (11.17, down), (9.63, down))
  arrow(axes, (7.47, down), (5.93, down))
  arrow(axes, (3.77, down), (2.23, down))
  arrow(
    axes,
    (1.15, BOTTOM + HEIGHT + 0.03),
    (3.6, TOP - 0.03),
    connectionstyle='arc3,rad=-0.12',
  )
  axes.text(9.1, 2.02, 'memory: replay, read and written every step', **label)
  arrow(axes, (11.35, 2.02), (12.2, 2.02), '<|-|>', linestyle=':')
  return figure


def main() -> None:
  with matplotlib.rc_context({'svg.hashsalt': 'loop'}):
    draw().savefig(OUT, transparent=True, metadata={'Date': None})


if __name__ == '__main__':
  main()
