"""Writes the results of comparisons into their pages in docs/results.

  python -m experiments.results --take=runs/studies/oprl

first copies the page of a comparison, its numbers, its runs (NAME.csv) and its
tasks and seeds (panels/NAME.json) to docs/results. The tables of a study stand
between two marks of docs/results/NAME.md; the text around them is written by
hand. The board of methods is docs/BOARD.md.
"""

import csv
import glob
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from agentrl.runtime import storage

_TAKE = flags.DEFINE_multi_string('take', [], 'Folder of a comparison; again.')
_DOCS = flags.DEFINE_string('docs', 'docs', 'Folder of BOARD.md and results.')


def main() -> None:
  from agentrl.report.study import tables  # takes seconds
  from docs.generate import board

  for workdir in _TAKE.value:
    take(workdir, os.path.join(_DOCS.value, 'results'))
  for name, report in reports(_DOCS.value).items():
    if name == board.NAME:
      storage.write(os.path.join(_DOCS.value, board.PAGE), board.page(report))
      continue
    path = os.path.join(_DOCS.value, 'results', f'{name}.md')
    with open(path, encoding='utf-8') as f:
      page = f.read()
    storage.write(path, put(page, name, tables.markdown(report)))
    print(f'written: {path}')


def take(workdir: str, folder: str) -> None:
  """The page of a comparison as it is, its report, and its runs as a table."""
  from agentrl.report.study import page as study_page  # takes seconds

  try:
    with open(os.path.join(workdir, study_page.JSON)) as f:
      report = json.load(f)
  except OSError as error:
    raise ValueError(
      f'--take={workdir}: {study_page.JSON} cannot be read; let'
      ' experiments.compare come to its end there'
    ) from error
  os.makedirs(folder, exist_ok=True)
  name = os.path.join(folder, report['name'])
  with open(f'{name}.csv', 'w', encoding='utf-8', newline='') as f:
    csv.writer(f, lineterminator='\n').writerows(rows(report))
  for env in report['envs'].values():
    for setting in env['settings'].values():
      for arm in setting['arms'].values():
        del arm['each'], arm['curve']
  shutil.copy(os.path.join(workdir, study_page.HTML), f'{name}.html')
  if 'panel' in report:  # of older ones nothing was written
    panels = os.path.join(folder, 'panels')
    os.makedirs(panels, exist_ok=True)
    panel = os.path.join(panels, f'{report["name"]}.json')
    shutil.copy(os.path.join(workdir, 'panel.json'), panel)
  with open(f'{name}.json', 'w', encoding='utf-8') as f:
    f.write(json.dumps(report, indent=1) + '\n')


def rows(report: Mapping[str, Any]) -> Iterator[list]:
  """A row for every run, below their names; '' where a measure has no value."""
  measures = list(report['measures'])
  yield ['env', 'setting', 'arm', 'seed', 'failed', 'unstable', *measures]
  for env, of_env in report['envs'].items():
    for setting, of_setting in of_env['settings'].items():
      for arm, of_arm in of_setting['arms'].items():
        for run in of_arm['each']:
          yield [
            *(env, setting, arm, run['seed']),
            *(int(run['failed']), int(run['unstable'])),
            *(run['measures'][m] for m in measures),
          ]


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
    raise ValueError(f'results/{name}.md must have the marks {begin} and {end}')
  inside = re.compile(f'{re.escape(begin)}.*{re.escape(end)}', re.DOTALL)
  return inside.sub(lambda _: f'{begin}\n\n{text}\n\n{end}', page)
