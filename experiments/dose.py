"""Draws dose and response of step rewards from a study's report.

  python -m experiments.dose --report=runs/studies/dose/report.json

Prints a table with the gain that the curves predict for learned rewards, and
writes dose.png into --out.
"""

import json
import os

from agentrl import cli, domain

_REPORT = cli.flag(
  'report', '', domain.Path(empty=False), 'report.json of configs/studies/dose'
)
_OUT = cli.flag('out', 'runs/dose', domain.Path(empty=False), 'Folder')


def main() -> None:
  from agentrl.lab.papers.dose import curves as dose  # takes seconds

  try:
    with open(_REPORT.value, encoding='utf-8') as f:
      report = json.load(f)
  except OSError as error:
    raise ValueError(
      f'--report={_REPORT.value} cannot be read ({error.strerror}); give the'
      ' report.json of a comparison by configs/studies/dose.py'
    ) from error
  print(dose.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  path = os.path.join(_OUT.value, 'dose.png')
  dose.picture(report, path)
  print(f'written: {path}')


if __name__ == '__main__':
  cli.run(main, required=('report',))
