"""Judge-error study: credit of judged methods as their judge gets worse.

As the credit study (lab/papers/credit), with a judge that knows the truth of
every turn and an error planted in what it says. The policy never changes, and
the same attempts are judged at every level.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from agentrl.lab.papers.credit import study as credit
from agentrl.lab.papers.credit.size import CreditSize
from agentrl.report import panels
from agentrl.run.check import fields

ENV = 'bifurcation'
# Methods that read a judge's score of every turn, without a network of it.
METHODS = ('adca', 'adca_allocation', 'cm2', 'mira', 'ppr', 'vpr', 'vpr_turn')
BASELINE = 'grpo'  # asks no judge
LEVELS: Mapping[str, tuple[float, ...]] = {
  'flip': (0.0, 0.05, 0.1, 0.2, 0.4),
  'length_bias': (0.0, 0.25, 0.5, 0.75, 1.0),
}
WRONG = -0.5  # progress of a wrong turn is below; of all others it is 0
LENGTH_SCALE = 4.0  # characters; messages there have two to five
_TITLES = {
  'flip': 'share of verdicts turned round',
  'length_bias': 'added to a long message',
}


def measure(
  size: CreditSize,
  names: Sequence[str] = METHODS,
  levels: Mapping[str, Sequence[float]] = LEVELS,
) -> dict[str, Any]:
  """Measures every method's agreement with the truth, at each error's levels.

  Returns: {'env', 'size', 'baseline': measures, 'errors': {error: {level:
    {method: measures}}}}, measures as of `credit_accuracy.Agreement`
  """
  size = size._replace(warm=0)  # nothing of these methods is learned
  c = credit.config(BASELINE, ENV, size)
  game = credit.play(c, size)
  out: dict[str, Any] = {
    'env': ENV,
    'size': size._asdict(),
    'baseline': credit.compare(credit.credit(c, game), game)._asdict(),
    'errors': {},
  }
  for error, values in levels.items():
    rows = out['errors'][error] = {}
    for value in values:
      rows[str(value)] = _at(size, names, error, value)
      logging.info('%s %g is measured', error, value)
  return out


def _at(
  size: CreditSize, names: Sequence[str], error: str, value: float
) -> dict[str, dict[str, float]]:
  """Measures every method at one level, on the same judged batches."""
  game, out = None, {}
  for name in names:
    c = credit.config(name, ENV, size, arg=',judged=column')
    changes = {
      f'judging.{error}': value,
      'judging.length_scale': LENGTH_SCALE,
      'hp.judge.column.above': WRONG,
    }
    if name == 'cm2':  # of groups of this size
      changes['hp.turn.require_members.least'] = size.group // 2 + 1
    c = fields.changed(c, changes)
    if game is None:  # what is sampled and judged is that of all of them
      game = credit.play(c, size)
    out[name] = credit.compare(credit.credit(c, game), game)._asdict()
  return out


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: rank correlation with the truth, a line per method."""
  lines = []
  for error, rows in report['errors'].items():
    levels = list(rows)
    lines += [
      f'| {_TITLES[error]} | {" | ".join(levels)} |',
      f'|---|{"---|" * len(levels)}',
    ]
    for name in rows[levels[0]]:
      cells = ' | '.join(f'{rows[x][name]["rank"]:.2f}' for x in levels)
      lines.append(f'| `{name}` | {cells} |')
    base = f'{report["baseline"]["rank"]:.2f}'
    lines += [f'| `{BASELINE}` | {" | ".join([base] * len(levels))} |', '']
  return '\n'.join(lines)


def picture(
  report: Mapping[str, Any], path_png: str | os.PathLike[str]
) -> None:
  """Draws a panel per error: rank correlation with the truth by its size."""
  errors = report['errors']
  figure, drawn = panels.draw(len(errors), share_y=True)
  for axes, (error, rows) in zip(drawn, errors.items(), strict=True):
    x = np.array([float(value) for value in rows])
    for name in next(iter(rows.values())):
      y = [rows[value][name]['rank'] for value in rows]
      axes.plot(x, y, marker='o', markersize=4, label=name)
    base = report['baseline']['rank']
    axes.axhline(base, color='#777777', ls='--', label=f'{BASELINE}, no judge')
    axes.set_xlabel(_TITLES[error])
  drawn[0].set_ylabel("Spearman's correlation with the truth")
  handles, labels = drawn[0].get_legend_handles_labels()
  panels.explain(figure, handles, labels)
  panels.write(figure, path_png)
