"""Compares methods: paired seeds, tuned and common rates, one page to read.

  python -m experiments.compare --study=configs/studies/oprl.py \
    --workdir=runs/studies/oprl

A study says what is compared and what is claimed before anything runs.
Repeating the command goes on where it was cut off; report.html and
report.json are written at the end.
"""

import os

from absl import flags

from agentrl.lock import Lock
from experiments import cli

_STUDY = flags.DEFINE_string('study', None, 'File with get_study().')
_WORKDIR = flags.DEFINE_string('workdir', None, 'Where runs and report go.')
_JOBS = flags.DEFINE_integer(
  'jobs', os.cpu_count(), 'Processes at a time.', lower_bound=1
)
_TOGETHER = flags.DEFINE_integer(
  'together', 1, 'Pairs of an arm in one process.', lower_bound=1
)


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
