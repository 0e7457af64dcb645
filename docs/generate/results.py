"""Writes the results of comparisons into docs/results.

  python -m experiments.results --take=runs/studies/oprl

first publishes a comparison: NAME.json.xz is its whole report with every run
and curve, NAME.json what the docs show of it, NAME.svg its picture, and
panels/NAME.json its tasks and seeds. The tables of a study stand between two
marks of docs/results/NAME.md; the text around them is written by hand. The
board of methods has a page of its own, docs/BOARD.md.

  python -m experiments.results --pages=runs/published

writes report.html and report.json of every published comparison into
runs/published/NAME.
"""

import glob
import json
import lzma
import os
import re
from collections.abc import Mapping
from typing import Any

from absl import flags

from agentrl.runtime import storage

_TAKE = flags.DEFINE_multi_string('take', [], 'Folder of a comparison; again.')
_PAGES = flags.DEFINE_string('pages', '', 'Folder for the pages.')
_DOCS = flags.DEFINE_string('docs', 'docs', 'Folder of results/ and BOARD.md.')
FOLDER = 'results'
DIGITS = 6  # of a number in a summary
WIDTH = 100  # of a line there


def main() -> None:
  from docs.generate import board

  folder = os.path.join(_DOCS.value, FOLDER)
  for workdir in _TAKE.value:
    take(workdir, folder)
  if _PAGES.value:
    unpack(folder, _PAGES.value)
    return
  for name, report in reports(folder).items():
    if name == board.NAME:
      path = os.path.join(_DOCS.value, board.PAGE)
      storage.write(path, board.page(report))
    else:
      write_tables(os.path.join(folder, f'{name}.md'), report)
  print(f'written: {folder}')


def take(workdir: str, folder: str) -> None:
  """Publishes the report of a finished comparison."""
  from agentrl.report.study import page as study_page  # takes seconds

  try:
    with open(os.path.join(workdir, study_page.JSON), encoding='utf-8') as f:
      report = json.load(f)
  except OSError as error:
    raise ValueError(
      f'--take={workdir}: {study_page.JSON} cannot be read; let'
      ' experiments.compare come to its end there'
    ) from error
  publish(report, folder)
  if 'panel' in report:  # older comparisons have none
    panels = os.path.join(folder, 'panels')
    os.makedirs(panels, exist_ok=True)
    with open(os.path.join(workdir, 'panel.json'), encoding='utf-8') as f:
      panel = json.load(f)
    path = os.path.join(panels, f'{report["name"]}.json')
    storage.write(path, text(panel) + '\n')


def publish(report: Mapping[str, Any], folder: str) -> None:
  """Writes the archive, the summary and the picture of a report."""
  from docs.generate import results_picture  # takes seconds

  os.makedirs(folder, exist_ok=True)
  name = os.path.join(folder, report['name'])
  with lzma.open(f'{name}.json.xz', 'wt', encoding='utf-8', preset=9) as f:
    json.dump(report, f, separators=(',', ':'))
  short = summary(report)
  storage.write(f'{name}.json', text(short) + '\n')
  storage.write(f'{name}.svg', results_picture.draw(short))


def summary(report: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the report without its runs, curves, tuning and minor measures.

  Differences are kept for the first measure only.
  """
  from agentrl.report.study import tables  # takes seconds

  first = next(iter(report['measures']))
  envs = {}
  for env, of_env in report['envs'].items():
    settings = {}
    for setting, of_setting in of_env['settings'].items():
      arms = {}
      for arm, values in of_setting['arms'].items():
        arms[arm] = {
          k: v for k, v in values.items() if k not in ('each', 'curve')
        }
        arms[arm]['measures'] = {
          m: _interval(values['measures'][m]) for m in tables.SHOWN
        }
      rows = [x for x in of_setting['comparisons'] if x['measure'] == first]
      settings[setting] = {**of_setting, 'arms': arms, 'comparisons': rows}
    envs[env] = {k: v for k, v in of_env.items() if k != 'tuning'}
    envs[env]['settings'] = settings
  return rounded({**report, 'envs': envs})


def rounded(x: Any) -> Any:
  """Returns the same with DIGITS significant digits in every float."""
  if isinstance(x, Mapping):
    return {k: rounded(v) for k, v in x.items()}
  if isinstance(x, list):
    return [rounded(v) for v in x]
  return float(f'{x:.{DIGITS}g}') if isinstance(x, float) else x


def _interval(measure: Mapping[str, float] | None) -> dict[str, float] | None:
  names = ('n', 'mean', 'low', 'high')
  return measure and {k: measure[k] for k in names if k in measure}


def text(x: Any, indent: int = 0) -> str:
  """JSON in which what fits a line stands on one, so that git can compare."""
  flat = json.dumps(x)
  if indent + len(flat) <= WIDTH or not isinstance(x, dict | list):
    return flat
  inner = ' ' * (indent + 1)
  if isinstance(x, list):
    lines = [inner + text(v, indent + 1) for v in x]
  else:
    lines = [
      f'{inner}{json.dumps(k)}: {text(v, indent + 1)}' for k, v in x.items()
    ]
  first, last = '[]' if isinstance(x, list) else '{}'
  return '\n'.join([first, ',\n'.join(lines), ' ' * indent + last])


def reports(folder: str) -> dict[str, dict]:
  """Returns the published summaries by name."""
  out = {}
  for path in sorted(glob.glob(os.path.join(folder, '*.json'))):
    with open(path, encoding='utf-8') as f:
      report = json.load(f)
    out[report['name']] = report
  return out


def archived(folder: str, name: str) -> dict[str, Any]:
  """Returns the whole report of a published comparison."""
  path = os.path.join(folder, f'{name}.json.xz')
  with lzma.open(path, 'rt', encoding='utf-8') as f:
    return json.load(f)


def unpack(folder: str, out: str) -> None:
  """Writes report.html and report.json of every published comparison."""
  from agentrl.report.study import page as study_page  # takes seconds

  for name in reports(folder):
    study_page.write(archived(folder, name), os.path.join(out, name))
    print(f'written: {os.path.join(out, name, study_page.HTML)}')


def write_tables(path: str, report: Mapping[str, Any]) -> None:
  """Puts the tables of a summary into the page of its study."""
  from agentrl.report.study import tables  # takes seconds

  with open(path, encoding='utf-8') as f:
    page = f.read()
  storage.write(path, put(page, report['name'], tables.markdown(report)))


def put(page: str, name: str, text: str) -> str:
  """Returns the page with the study's tables between its marks."""
  begin, end = f'<!-- {name} -->', f'<!-- end of {name} -->'
  if begin not in page or end not in page:
    raise ValueError(f'{name}.md lacks the marks {begin} and {end}; add them')
  inside = re.compile(f'{re.escape(begin)}.*{re.escape(end)}', re.DOTALL)
  return inside.sub(lambda _: f'{begin}\n\n{text}\n\n{end}', page)
