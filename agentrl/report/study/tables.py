"""Markdown tables of a comparison: its claims and its arms."""

import textwrap
from collections.abc import Mapping, Sequence

from agentrl.report import numbers
from agentrl.report.study import page

SHOWN = ('area', 'final', 'speed')  # of every arm
QUICK = ('final', 'area')  # of an arm of a quick comparison


def markdown(report: Mapping) -> str:
  """Writes claims and arms of all environments and settings; checks last."""
  checks = [c for c in report['claims'] if page.is_check(report, c)]
  findings = [c for c in report['claims'] if c not in checks]
  parts = [_claims(report, findings)] if findings else []
  for env in report['envs'].values():
    for setting in env['settings'].values():
      parts += [f'{env["label"]}; {setting["label"]}:', _arms(report, setting)]
  if checks:
    parts += [f'{page.CHECKS}:', _claims(report, checks)]
  if 'panel' in report:
    parts.append(f'Tasks, order and seeds: panel `{report["panel"][:16]}`.')
  return '\n\n'.join(parts)


def _claims(report: Mapping, claims: Sequence[Mapping]) -> str:
  lines = [
    '| where | claim (arm − baseline) | rates | claimed | found [95%]'
    ' | Holm p | verdict |',
    '|---|---|---|---|---|---|---|',
  ]
  for c in claims:
    m, result = report['measures'][c['measure']], c['found']
    ours = _with_interval(result, m, '+') if result else '—'
    p = f'{result["holm"]:.3f}' if result else '—'
    claimed = f'{m["scale"] * c["claimed"]:+.{m["digits"]}f} {m["unit"]}'
    lines.append(
      f'| {c["env"]} | {c["text"]} | {c["setting"]} | {claimed} | {ours} | {p}'
      f' | {c["verdict"]} |'
    )
  return '\n'.join(lines)


def _with_interval(x: Mapping, m: Mapping, sign: str = '') -> str:
  """Writes '12.3 [10.1, 14.5]' in the measure's unit."""
  mean, d = m['scale'] * x['mean'], m['digits']
  if 'low' not in x:  # one run
    return f'{mean:{sign}.{d}f}'
  low, high = (m['scale'] * x[k] for k in ('low', 'high'))
  return f'{mean:{sign}.{d}f} [{low:{sign}.{d}f}, {high:{sign}.{d}f}]'


def _arms(report: Mapping, setting: Mapping) -> str:
  measures = [(n, report['measures'][n]) for n in SHOWN]
  heads = [m['label'] for _, m in measures]
  lines = [
    f'| arm | rate | runs (failed, unstable) | {" | ".join(heads)} |',
    '|---|---|---|' + '---|' * len(heads),
  ]
  for arm in setting['arms'].values():
    cells = [
      _with_interval(arm['measures'][n], m) if arm['measures'][n] else '—'
      for n, m in measures
    ]
    runs = f'{arm["runs"]} ({arm["failed"]}, {arm["unstable"]})'
    cells = [arm['label'], f'{arm["rate"]:g}', runs, *cells]
    lines.append(f'| {" | ".join(cells)} |')
  return '\n'.join(lines)


def plain(report: Mapping) -> str:
  """Writes a quick comparison: its arms, and differences from the first."""
  env = report['envs']['env']
  setting = env['settings']['default']
  arms = setting['arms']
  final, area = (numbers.measure(x, report['measures']) for x in QUICK)
  rows = {
    row['arm']: row
    for row in setting['comparisons']
    if row['measure'] == QUICK[0]
  }
  first = next(iter(arms))
  lines = [['', 'seeds', 'mean success', 'at the end', f'end − {first}']]
  for name, arm in arms.items():
    end, mean = (arm['measures'][x] for x in QUICK)
    gap = _cell(final, rows[name], '+') if name in rows else ''
    lines.append(
      [name, str(arm['runs']), _cell(area, mean), _cell(final, end), gap]
    )
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  text = [
    '  '.join(x.ljust(w) for x, w in zip(line, widths, strict=True)).rstrip()
    for line in lines
  ]
  steps = f'{env["budget"]["env_steps"]:,}'
  hows = dict.fromkeys(row['how'] for row in rows.values())
  note = f'Success in % over {steps} environment steps, differences in points'
  note += f', {" or ".join(hows)}' if hows else ''
  warnings = [f'WARNING: {x}' for x in report['warnings']]
  head = [env['label'], report['exploratory'], *warnings]
  note = f'{note}; [95% intervals].'
  parts = [*map(_wrap, head), '', *text, '', _wrap(note)]
  return '\n'.join(parts)


def _wrap(text: str) -> str:
  return textwrap.fill(text, 80, break_on_hyphens=False)


def _cell(of: numbers.NumberFormat, x: Mapping | None, sign: str = '') -> str:
  if x is None:
    return numbers.NOTHING
  text = of.show(x['mean'], bool(sign))
  if 'low' not in x:
    return text
  return f'{text} {of.interval(x["low"], x["high"], bool(sign))}'
