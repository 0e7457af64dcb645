"""Puts what comparisons found into docs/RESULTS.md.

  python -m experiments.results --take=runs/studies/oprl

takes the page of a comparison and its numbers to docs/results first; the runs
one by one stay in the page. Each study there has its tables between two marks
of RESULTS.md; the words around them are written by hand.
"""

import glob
import json
import os
import re
import shutil
from collections.abc import Mapping

from absl import flags

from agentrl.report.study import page as study_page

_TAKE = flags.DEFINE_multi_string('take', [], 'Folder of a comparison; again.')
_DOCS = flags.DEFINE_string('docs', 'docs', 'Folder of RESULTS.md.')
SHOWN = ('area', 'final', 'speed')  # of every arm


def main() -> None:
  for workdir in _TAKE.value:
    take(workdir, os.path.join(_DOCS.value, 'results'))
  path = os.path.join(_DOCS.value, 'RESULTS.md')
  with open(path, encoding='utf-8') as f:
    page = f.read()
  for name, report in reports(_DOCS.value).items():
    page = put(page, name, tables(report))
  with open(path, 'w', encoding='utf-8') as f:
    f.write(page)
  print(f'written: {path}')


def take(workdir: str, folder: str) -> None:
  """The page of a comparison as it is, its report without single runs."""
  try:
    with open(os.path.join(workdir, study_page.JSON)) as f:
      report = json.load(f)
  except OSError as error:
    raise ValueError(
      f'--take={workdir}: {study_page.JSON} cannot be read; let'
      ' experiments.compare come to its end there'
    ) from error
  for env in report['envs'].values():
    for setting in env['settings'].values():
      for arm in setting['arms'].values():
        del arm['each'], arm['curve']
  os.makedirs(folder, exist_ok=True)
  name = os.path.join(folder, report['name'])
  shutil.copy(os.path.join(workdir, study_page.HTML), f'{name}.html')
  with open(f'{name}.json', 'w', encoding='utf-8') as f:
    f.write(json.dumps(report, indent=1) + '\n')


def reports(docs: str) -> dict[str, dict]:
  """{name: report} of docs/results."""
  out = {}
  for path in sorted(glob.glob(os.path.join(docs, 'results', '*.json'))):
    with open(path, encoding='utf-8') as f:
      report = json.load(f)
    out[report['name']] = report
  return out


def put(page: str, name: str, text: str) -> str:
  """The page with the study's tables between its marks."""
  begin, end = f'<!-- {name} -->', f'<!-- end of {name} -->'
  if begin not in page or end not in page:
    raise ValueError(f'RESULTS.md lacks the marks {begin} and {end}; add them')
  inside = re.compile(f'{re.escape(begin)}.*{re.escape(end)}', re.DOTALL)
  return inside.sub(lambda _: f'{begin}\n\n{text}\n\n{end}', page)


def tables(report: Mapping) -> str:
  """Claims and arms of all environments and settings, as Markdown."""
  parts = [_claims(report)] if report['claims'] else []
  for env in report['envs'].values():
    for setting in env['settings'].values():
      parts += [f'{env["label"]}; {setting["label"]}:', _arms(report, setting)]
  return '\n\n'.join(parts)


def _claims(report: Mapping) -> str:
  lines = [
    '| where | claim (arm − baseline) | rates | claimed | found [95%]'
    ' | Holm p | verdict |',
    '|---|---|---|---|---|---|---|',
  ]
  for c in report['claims']:
    m, found = report['measures'][c['measure']], c['found']
    told = _with_interval(found, m, '+') if found else '—'
    p = f'{found["holm"]:.3f}' if found else '—'
    claimed = f'{m["scale"] * c["claimed"]:+.{m["digits"]}f} {m["unit"]}'
    lines.append(
      f'| {c["env"]} | {c["text"]} | {c["setting"]} | {claimed} | {told} | {p}'
      f' | {c["verdict"]} |'
    )
  return '\n'.join(lines)


def _with_interval(x: Mapping, m: Mapping, sign: str = '') -> str:
  """'12.3 [10.1, 14.5]' in the measure's unit."""
  mean, low, high = (m['scale'] * x[k] for k in ('mean', 'low', 'high'))
  d = m['digits']
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
