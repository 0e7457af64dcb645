"""A comparison as one HTML page: everything in it, nothing loaded, no script.

A report is plain JSON; a number times its measure's scale is what is shown:

  format 1, name, title, question, protocol [[label, text]]
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
        holm]}}
  power {measure, sd, rows [pairs, alpha, smallest]}
  spent {run_seconds, runs, failed}
  commands [...], versions {}, seeds {}, hardware {}
"""

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from agentrl.report import html, svg
from agentrl.report import numbers as numbers_lib
from agentrl.report import tables as tables_lib
from agentrl.report.html import Markup, element, join, note
from agentrl.report.study import claims, environments, tuning

FORMAT = 1
DIGITS = 6  # of a number
JSON, HTML = 'report.json', 'report.html'
_STYLE = pathlib.Path(__file__).parent / 'static' / 'page.css'
_TERMS = {
  '95% interval': """Where the true mean lies, as far as these runs can tell: of
    many such intervals 95 in 100 hold it.""",
  'Median, IQM': """The run in the middle, and the mean of the middle half of
    the runs (interquartile mean): one odd run moves them little.""",
  'Paired difference': """Both arms of a pair share warm start and random keys,
    so that what they have in common cancels; the higher their correlation
    over pairs, the more it does.""",
  'P(improvement)': """The chance that a run of the arm, picked at random, has a
    higher value than one of the baseline; 0.50 is no difference.""",
  'p': """The chance of a difference at least this large if in truth there were
    none.""",
  'Holm p': """p, made larger for the number of claims tested together: among
    many tests some succeed by luck, and this bounds the chance of even one
    such success.""",
}
_POWER = """The smallest true difference that a study of this many pairs finds
four times out of five. A smaller one would mostly be missed: that nothing was
found does not mean that nothing is there."""


def write(report: Mapping, folder: str | os.PathLike[str]) -> None:
  """Writes report.json and report.html, each whole or not at all.

  A number that is not finite is null in report.json, as a missing one is.
  """
  whole = page(report)
  text = json.dumps(_plain(report), allow_nan=False) + '\n'
  os.makedirs(folder, exist_ok=True)
  for name, content in ((JSON, text), (HTML, whole)):
    path = os.path.join(folder, name)
    with open(path + '.new', 'w', encoding='utf-8') as f:
      f.write(content)
    os.replace(path + '.new', path)


def page(report: Mapping) -> str:
  """The page, a pure function of the report; what is missing is left out.

  Raises:
    ValueError: if the report is of another format.
  """
  if report.get('format') != FORMAT:
    raise ValueError(
      f'format={report.get("format")!r} of the report is not the {FORMAT} that'
      ' this version draws; run the comparison again with this version'
    )
  report = _present(_plain(report))
  known = svg.looks(report)
  title = report.get('title') or report.get('name') or 'Comparison'
  envs = report.get('envs', {})
  parts = [
    ('claims', 'Claims', claims.claims(report, known)),
    ('protocol', 'Protocol', _protocol(report.get('protocol'))),
    (
      'reading',
      'How to read the numbers',
      _pairs(_TERMS.items()) if envs else None,
    ),
    *(
      (
        f'env-{i}',
        env.get('label') or name,
        environments.environment(env, report, known),
      )
      for i, (name, env) in enumerate(envs.items())
    ),
    ('tuning', 'Tuning', tuning.tuning(envs, known)),
    ('readings', 'Other readings', environments.readings(envs, known)),
    ('power', 'Power: what could be found', _power(report)),
    ('again', 'Doing it again', _again(report)),
  ]
  parts = [part for part in parts if part[2]]
  return html.page(
    title,
    _STYLE.read_text(encoding='utf-8'),
    element('header', *_head(report, title), _contents(parts)),
    element('main', *(_section(*part) for part in parts)),
    element(
      'footer',
      'Every number on this page, and the points of the curves, are in ',
      element('a', JSON, href=JSON),
      ' beside it.',
    ),
  )


def _section(name: str, title: str, content: Markup) -> Markup:
  return element('section', element('h2', title), content, id=name)


def _contents(parts: list[tuple[str, str, Markup]]) -> Markup:
  links = (element('a', title, href=f'#{name}') for name, title, _ in parts)
  return element('nav', *links, aria_label='contents')


def _head(report: Mapping, title: str) -> list[Markup | None]:
  question, spent = report.get('question'), report.get('spent', {})
  facts = []
  if spent:
    facts.append(f'{numbers_lib.count(spent.get("runs"))} runs')
    facts.append(f'{numbers_lib.count(spent.get("failed"))} failed')
    facts.append(f'{numbers_lib.duration(spent.get("run_seconds"))} of runs')
  return [
    element('h1', title),
    element('p', question, class_='question') if question else None,
    claims.tally(report),
    element('p', ' · '.join(facts), class_='spent') if facts else None,
  ]


def _pairs(rows: Any) -> Markup:
  return element(
    'dl',
    *(
      join(element('dt', str(k)), element('dd', ' '.join(str(v).split())))
      for k, v in rows
    ),
    class_='facts',
  )


def _protocol(protocol: Any) -> Markup | None:
  if not protocol:
    return None
  return join(note('Fixed before the first run.'), _pairs(protocol))


def _power(report: Mapping) -> Markup | None:
  told = report.get('power', {})
  if not told.get('rows'):
    return None
  m = numbers_lib.measure(told.get('measure', ''), report.get('measures'))
  sd = told.get('sd')
  more = f' Here: {m.title}; pairs differ with sd {m.show(sd)}.'
  return join(note(_POWER + more), tables_lib.power(told, m))


def _again(report: Mapping) -> Markup | None:
  commands = report.get('commands', ())
  facts = []
  for name in ('versions', 'hardware', 'seeds'):
    told = report.get(name, {}).items()
    facts += [
      (f'seeds, {k}' if name == 'seeds' else k, _listed(v)) for k, v in told
    ]
  if not (commands or facts):
    return None
  return join(
    *(element('pre', element('code', c)) for c in commands),
    _pairs(facts) if facts else None,
  )


def _listed(x: Any) -> str:
  if isinstance(x, list | tuple):
    return ', '.join(map(str, x)) or numbers_lib.NOTHING
  return numbers_lib.any_value(x)


def _present(x: Any) -> Any:
  """The same without what is null: a missing part has one form, not two."""
  if isinstance(x, Mapping):
    return {k: _present(v) for k, v in x.items() if v is not None}
  return [_present(v) for v in x] if isinstance(x, list) else x


def _plain(x: Any) -> Any:
  """The same to DIGITS, with null for what JSON has no number for."""
  if isinstance(x, Mapping):
    return {k: _plain(v) for k, v in x.items()}
  if isinstance(x, list | tuple):
    return [_plain(v) for v in x]
  if not isinstance(x, float):
    return x
  return float(f'{x:.{DIGITS}g}') if math.isfinite(x) else None
