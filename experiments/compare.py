"""Compares methods: paired seeds, tuned and common rates, one page to read.

  python -m experiments.compare --study=configs/studies/oprl.py \
    --workdir=runs/studies/oprl

A study says what is compared and what is claimed before anything runs.
Repeating the command goes on where it was cut off; report.html and
report.json are written at the end.
"""

import os

from agentrl import cli
from agentrl.domain import COUNT, Path
from agentrl.run.lock import Lock

_STUDY = cli.flag('study', None, Path(empty=False), 'File with get_study()')
_WORKDIR = cli.workdir_flag('Where runs and report go')
_JOBS = cli.flag('jobs', os.cpu_count(), COUNT, 'Processes at a time')
_TOGETHER = cli.flag('together', 1, COUNT, 'Pairs of an arm in one process')


def main() -> None:
  from agentrl.study import run  # imports jax

  study = run.load(_STUDY.value)
  workdir = os.path.abspath(_WORKDIR.value)
  with Lock(workdir):  # two would take each other's runs for failed
    report = run.run(study, workdir, _JOBS.value, _TOGETHER.value)
    run.sign(report, study, _STUDY.value, _WORKDIR.value)
    print(run.publish(report, _WORKDIR.value))


if __name__ == '__main__':
  cli.run(main, required=('study', 'workdir'))
