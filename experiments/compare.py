"""Compares methods: paired seeds, tuned and common rates, one page to read.

  python -m experiments.compare --study=configs/studies/oprl.py \
    --workdir=runs/studies/oprl

A study says what is compared and what is claimed before anything runs.
Repeating the command goes on where it was cut off; report.html and
report.json are written at the end.
"""

import os

from agentrl.domain import COUNT, Path
from agentrl.lock import Lock
from experiments import cli

_STUDY = cli.flag('study', None, Path(empty=False), 'File with get_study()')
_WORKDIR = cli.flag(
  'workdir', None, Path(empty=False), 'Where runs and report go'
)
_JOBS = cli.flag('jobs', os.cpu_count(), COUNT, 'Processes at a time')
_TOGETHER = cli.flag('together', 1, COUNT, 'Pairs of an arm in one process')


def main() -> None:
  from experiments import comparison  # imports jax

  study = comparison.load(_STUDY.value)
  workdir = os.path.abspath(_WORKDIR.value)
  with Lock(workdir):  # two would take each other's runs for failed
    report = comparison.run(study, workdir, _JOBS.value, _TOGETHER.value)
    comparison.sign(report, study, _STUDY.value, _WORKDIR.value)
    print(comparison.publish(report, _WORKDIR.value))


if __name__ == '__main__':
  cli.run(main, required=('study', 'workdir'))
