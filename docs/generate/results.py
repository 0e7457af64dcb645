"""Writes the results of comparisons into docs/RESULTS.md.

  python -m experiments.results --take=runs/studies/oprl

first copies the page of a comparison and its numbers to docs/results. The
tables of a study stand between two marks of RESULTS.md; the text around them is
written by hand.
"""

import glob
import json
import os
import re
import shutil

from absl import flags

_TAKE = flags.DEFINE_multi_string('take', [], 'Folder of a comparison; again.')
_DOCS = flags.DEFINE_string('docs', 'docs', 'Folder of RESULTS.md.')


def main() -> None:
  from agentrl.report.study import tables  # takes seconds

  for workdir in _TAKE.value:
    take(workdir, os.path.join(_DOCS.value, 'results'))
  path = os.path.join(_DOCS.value, 'RESULTS.md')
  with open(path, encoding='utf-8') as f:
    page = f.read()
  for name, report in reports(_DOCS.value).items():
    page = put(page, name, tables.markdown(report))
  with open(path, 'w', encoding='utf-8') as f:
    f.write(page)
  print(f'written: {path}')


def take(workdir: str, folder: str) -> None:
  """The page of a comparison as it is, its report without single runs."""
  from agentrl.report.study import page as study_page  # takes seconds

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
