"""Report of a credit study: a table and one picture."""

import os
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from agentrl.lab.papers.credit.study import RolloutData

COLUMNS = ('bias', 'noise', 'rank', 'found', 'seconds')
LEGEND = """\
bias     error of the mean credit of turns of equal truth and place, after the
         best positive scaling; 1: as if all were 0 (unit: the truth's RMS)
noise    standard deviation around that mean, same unit
rank     Spearman's correlation of credit and truth over turns
found    groups whose decisive turn has the largest |credit|
seconds  of this method, compilation included"""
SHOWN = 8  # methods of a picture, at most
_WIDE = 3  # panels of a row


def table(report: Mapping) -> str:
  """Returns a line for each method, highest rank correlation first."""
  methods = report['methods']
  width = max(map(len, (*methods, 'method')))
  lines = ['  '.join([f'{"method":{width}}', *(f'{c:>7}' for c in COLUMNS)])]
  for name in sorted(methods, key=lambda n: -methods[n]['rank']):
    row = (
      f'{methods[name][c]:7.{1 if c == "seconds" else 2}f}' for c in COLUMNS
    )
    lines.append('  '.join([f'{name:{width}}', *row]))
  lines += [f'left out: {n}: {why}' for n, why in report['skipped'].items()]
  return '\n'.join([*lines, '', LEGEND])


def picture(
  credits: Mapping[str, np.ndarray],
  played: RolloutData,
  path_png: str | os.PathLike[str],
  title: str,
) -> None:
  """Draws the same turns credited by different methods; the truth comes first.

  One panel for each of `most_different`: a line for each trajectory of two
  groups, a column for each turn, blue above zero and red below, to the panel's
  own scale. A dot marks solved trajectories, a frame the decisive turns.

  Args:
    credits: name -> [S, B, K]
  """
  seed, lines = chosen(played)
  ids = played.group[lines]
  last = 1 + np.flatnonzero(played.valid[seed, lines].any(axis=0)).max()
  names = most_different(credits, played.valid)
  panels = {'truth': played.truth} | {name: credits[name] for name in names}
  tall = -(-len(panels) // _WIDE)
  figure = Figure(figsize=(12, 1.1 + 3.2 * tall), dpi=90, layout='constrained')
  figure.get_layout_engine().set(wspace=0.04, hspace=0.06)
  canvas = FigureCanvasAgg(figure)
  figure.suptitle(title, fontsize=15, x=0.01, ha='left')
  figure.supxlabel(
    'a column is a turn, a line a trajectory (● solved); blue: positive, red:'
    ' negative; framed: the decisive turn',
    fontsize=11,
    x=0.01,
    ha='left',
  )
  axes = figure.subplots(tall, _WIDE, squeeze=False).reshape(-1)
  for panel, (name, x) in zip(axes, panels.items(), strict=False):
    values = np.where(played.valid, x, np.nan)[seed, lines, :last]
    _heat(panel, values, name, played.solved[seed, lines])
    _frame(panel, played.truth[seed, lines], ids)
  for panel in axes[len(panels) :]:
    panel.set_visible(False)
  canvas.print_png(os.fspath(path_png))


def most_different(
  credits: Mapping[str, np.ndarray], valid: np.ndarray, count: int = SHOWN
) -> list[str]:
  """Names methods whose credit differs most, in alphabetical order.

    d(x, y) = 1 − x·y / |x||y|    over all turns that happened

  The two furthest apart, then each time the one whose nearest among those
  chosen is furthest away; of equals the first by name.

  Args:
    credits: name -> [S, B, K], none of them 0 everywhere
    valid: [S, B, K] bool
  """
  names = sorted(credits)
  if len(names) <= count:
    return names
  x = np.stack([credits[name][valid] for name in names]).astype(np.float64)
  x /= np.linalg.norm(x, axis=1, keepdims=True)
  distance = np.round(1 - x @ x.T, 6)  # rounding errors are no difference
  picked = [*np.unravel_index(np.argmax(distance), distance.shape)]
  while len(picked) < count:
    nearest = distance[:, picked].min(axis=1)
    nearest[picked] = -1
    picked.append(np.argmax(nearest))
  return [names[i] for i in sorted(picked)]


def chosen(played: RolloutData) -> tuple[int, np.ndarray]:
  """Returns a seed, and the lines of two groups with mixed outcomes there.

  With different decisive turns if there are such; solved members stand first.
  """
  groups = np.unique(played.group)
  won = np.stack([played.solved[:, played.group == g].mean(1) for g in groups])
  mixed = np.sort(won * (1 - won), axis=0)[-2:].sum(axis=0)  # [S]
  seed = int(np.argmax(mixed))
  rate = won[:, seed]
  order = np.argsort(-rate * (1 - rate), kind='stable')
  size = np.abs(played.truth[seed])
  turn = [np.argmax(size[played.group == g].mean(axis=0)) for g in groups]
  other = [i for i in order if turn[i] != turn[order[0]]] or order[1:]
  keep = np.flatnonzero(np.isin(played.group, groups[[order[0], *other[:1]]]))
  order = np.lexsort((~played.solved[seed, keep], played.group[keep]))
  return seed, keep[order]


def _heat(axes: Axes, x: np.ndarray, name: str, solved: np.ndarray) -> None:
  """Draws x [lines, K], NaN where there was no turn."""
  top = np.nanmax(np.abs(x), initial=0.0) or 1.0
  axes.imshow(x, cmap='RdBu', vmin=-top, vmax=top, aspect='auto')
  weight = 'bold' if name == 'truth' else 'normal'
  axes.set_title(name, fontsize=12, loc='left', weight=weight)
  axes.set_xticks(range(x.shape[1]), range(x.shape[1]), fontsize=9)
  marks = ['●' if one else '' for one in solved]
  axes.set_yticks(range(len(x)), marks, fontsize=8, color='#2a7d2a')
  axes.tick_params(length=0)
  axes.spines[:].set_visible(False)
  for edge in np.arange(0.5, x.shape[1] - 1):
    axes.axvline(edge, color='white', linewidth=1)


def _frame(axes: Axes, truth: np.ndarray, group: np.ndarray) -> None:
  """Draws lines between groups, and a frame where mean |truth| is most."""
  for g in np.unique(group):
    lines = np.flatnonzero(group == g)
    size = np.abs(truth[lines]).mean(axis=0)
    if size.max():
      corner = np.argmax(size) - 0.5, lines[0] - 0.5
      axes.add_patch(
        Rectangle(corner, 1, len(lines), fill=False, color='#222222', lw=1.6)
      )
    if lines[0]:
      axes.axhline(lines[0] - 0.5, color='#222222', linewidth=0.8)
