"""A comparison as one HTML page: everything in it, nothing loaded, no script.

A report is plain JSON; a number times its measure's scale is what is shown:

  format 1, name, title, question, protocol [[label, text]]
  exploratory: a sentence, if no claim was made beforehand; warnings [...]
  measures {measure: label, unit, scale, digits}; the first is the main one
  claims [text, env, setting, arm, baseline, measure, claimed, verdict,
    found {n, mean, low, high, p, holm}]
  envs {env: label, budget {env_steps, tokens},
    tuning {arm: grid [[rate, [score of each seed]]], best, widened, edge},
    settings {setting: label,
      arms {arm: label, part (method | ablation | control), rate,
        runs, failed, unstable, seconds, env_steps, tokens (of all runs),
        measures {measure: n, mean, low, high, median, iqm, iqm_low, iqm_high,
          sd}, curve {env_steps | tokens: x, mean, low, high},
        each [seed, failed, unstable, measures {measure: value}],
        told {anything: value}},
      comparisons [arm, baseline, measure and the fields of paired.Paired,
        holm; where exploratory how it was compared in place of a test]}}
  power {measure, sd, rows [pairs, alpha, smallest]}
  spent {run_seconds, runs, failed}
  commands [...], versions {}, seeds {}, hardware {}
  panel: hash of tasks, order and seeds
"""

import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentrl.report import numbers as numbers_lib
from agentrl.report import render, svg
from agentrl.report.numbers import NumberFormat
from agentrl.report.study import figures
from agentrl.runtime import storage

FORMAT = 1
DIGITS = 9  # of a number: differences are taken again from what is written
JSON, HTML = 'report.json', 'report.html'
VERDICTS = {
  'confirmed': '✓',
  'smaller than claimed': '◐',
  'not seen': '○',
  'refuted': '✕',
  'not measured': '–',
}
CHECKS = 'Checks of the method'
_AXES = {'env_steps': 'environment steps', 'tokens': 'tokens'}


def write(report: Mapping, folder: str | os.PathLike[str]) -> None:
  """Writes report.json and report.html, each whole or not at all.

  A number that is not finite is null in report.json, as a missing one is.
  """
  whole = page(report)
  text = json.dumps(_plain(report), allow_nan=False) + '\n'
  os.makedirs(folder, exist_ok=True)
  storage.write(os.path.join(folder, JSON), text)
  storage.write(os.path.join(folder, HTML), whole)


def page(report: Mapping) -> str:
  """Renders the page, a pure function of the report; omits what is missing.

  Raises:
    ValueError: if the report is of another format.
  """
  if report.get('format') != FORMAT:
    raise ValueError(
      f'format={report.get("format")!r} of the report is not the {FORMAT} that'
      ' this version draws; run the comparison again with this version'
    )
  report = _present(_plain(report))
  looks = svg.looks(report)

  def look(name: str) -> svg.Look:
    """Returns an arm's look; one that never ran has no colour of its own."""
    return looks.get(name) or svg.Look(name, 'method', 6, 0)

  def measures(names: Iterable[str]) -> list[tuple[str, NumberFormat]]:
    """Picks the measures among the names: the report's own first, in order."""
    own, names = report.get('measures', {}), list(names)
    return [
      (name, numbers_lib.measure(name, own))
      for name in dict.fromkeys([*own, *names])
      if name in names
    ]

  def span(rows: Iterable[Mapping], *more: float | None):
    """Spans the least interval with the rows' means and intervals, and more."""
    ends = [row.get(k) for row in rows for k in ('low', 'high', 'mean')]
    return svg.reach([*more, *ends])

  def values(arm: Mapping, name: str) -> list[float]:
    """Returns the measure of each run that has it."""
    each = [run.get('measures', {}).get(name) for run in arm.get('each', ())]
    return [value for value in each if numbers_lib.is_number(value)]

  claims = report.get('claims', [])
  controls = [c for c in claims if is_check(report, c)]
  return render.render(
    'study.html.j2',
    title=report.get('title') or report.get('name') or 'Comparison',
    report=report,
    look=look,
    measures=measures,
    measure=lambda name: numbers_lib.measure(name, report.get('measures')),
    figures=lambda setting: _figures(setting, look),
    grid=figures.grid,
    all_scores=lambda arms: [
      y for x in arms.values() for _, y in figures.scores(x)
    ],
    mean_scores=figures.mean_scores,
    reach=svg.reach,
    span=span,
    values=values,
    axes=_AXES,
    checks=CHECKS,
    findings=[c for c in claims if c not in controls],
    controls=controls,
    verdicts=VERDICTS,
    json_name=JSON,
  )


def is_check(report: Mapping, claim: Mapping) -> bool:
  """Returns whether a claim is about a control, such as an arm against itself.

  It says whether the comparison works, and nothing of a method.
  """
  env = report.get('envs', {}).get(claim.get('env'), {})
  setting = env.get('settings', {}).get(claim.get('setting'), {})
  arm = setting.get('arms', {}).get(claim.get('arm'), {})
  return arm.get('part') == 'control'


def _figures(setting: Mapping, look) -> list[tuple[str, list, list]]:
  """Lists (title, legend, charts): methods; ablations, controls with what they
  vary. A legend has (look, success at the end), the highest first."""
  arms = setting['arms']
  methods = [n for n in arms if look(n).part == 'method']
  others = [n for n in arms if n not in methods]
  pairs = [{r['arm'], r['baseline']} for r in setting.get('comparisons', ())]
  beside = [n for n in methods if any({n, o} in pairs for o in others)]
  varied = 'Ablations and controls, with the arms they are compared with'

  def last(curve: Mapping) -> float | None:
    """Returns success at the end, by the first axis that has a point."""
    rows = [figures.points(curve.get(x), 'mean') for x in _AXES]
    return next((row[-1][1] for row in rows if row), None)

  out = []
  parts = {'Methods': methods, varied: beside + others if others else []}
  for title, names in parts.items():
    rows = [(look(n), arms[n].get('curve', {})) for n in names]
    charts = [
      figures.curves([(one, curve.get(x)) for one, curve in rows], label)
      for x, label in _AXES.items()
      if x == 'env_steps' or not _proportional([curve for _, curve in rows])
    ]
    legend = [(one, last(curve)) for one, curve in rows]
    legend.sort(key=lambda x: -1.0 if x[1] is None else x[1])
    if names:
      out.append((title, legend[::-1], [c for c in charts if c]))
  return out


def _proportional(curves: Sequence[Mapping]) -> bool:
  """Tells whether axes show one picture: tokens per step are about constant."""
  both = [(c.get('env_steps') or {}, c.get('tokens') or {}) for c in curves]
  if not (both and all(a.get('x') and b.get('x') for a, b in both)):
    return False
  ratios = [b['x'][-1] / (a['x'][-1] or 1.0) for a, b in both]
  means = [
    (u, v)
    for a, b in both
    for u, v in itertools.zip_longest(a.get('mean', ()), b.get('mean', ()))
  ]
  return max(ratios) <= 1.02 * min(ratios) and all(
    numbers_lib.is_number(u) and numbers_lib.is_number(v) and abs(u - v) < 0.01
    for u, v in means
  )


def _present(x: Any) -> Any:
  """Drops what is null: a missing part has one form, not two."""
  if isinstance(x, Mapping):
    return {k: _present(v) for k, v in x.items() if v is not None}
  return [_present(v) for v in x] if isinstance(x, list) else x


def _plain(x: Any) -> Any:
  """Rounds it to DIGITS, with null for what JSON has no number for."""
  if isinstance(x, Mapping):
    return {k: _plain(v) for k, v in x.items()}
  if isinstance(x, list | tuple):
    return [_plain(v) for v in x]
  if not isinstance(x, float):
    return x
  return float(f'{x:.{DIGITS}g}') if math.isfinite(x) else None
