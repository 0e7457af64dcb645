"""Compares arms that begin from one warm start for each seed.

  python -m experiments.arms --design=compaction_longer --jobs=2  # half an hour
  python -m experiments.arms --design=training_free --seeds=2
  python -m experiments.arms --design=self_play --jobs=2

Trains what the study of that name below agentrl/lab/papers says: warm starts,
then its arms from them. Prints claims and a table, and writes DESIGN.json into
--workdir. Repeat the command to resume.
"""

import importlib
import os
import sys

from agentrl import cli, domain

# docs/results has what each found.
DESIGNS = (
  'compaction',
  'compaction_longer',
  'self_play',
  'session_memory',
  'training_free',
)

_DESIGN = cli.flag('design', None, domain.OneOf(*DESIGNS), 'What is compared')
_SEEDS = cli.flag('seeds', 5, domain.Whole(2), 'Runs of each arm')
_JOBS = cli.flag('jobs', 1, domain.COUNT, 'Processes at a time')
_WORKDIR = cli.flag(
  'workdir', '', domain.Path(), "Folder for the runs; '': runs/DESIGN"
)


def main() -> None:
  from agentrl.lab.study import bounds, warm_arms  # imports jax
  from agentrl.runtime.lock import Lock

  name = _DESIGN.value
  design = importlib.import_module(f'agentrl.lab.papers.{name}.study').DESIGN
  workdir = os.path.abspath(_WORKDIR.value or os.path.join('runs', name))
  seeds = _SEEDS.value
  with Lock(workdir):
    if not warm_arms.run(design, workdir, jobs=_JOBS.value, seeds=seeds):
      sys.exit(1)
  report = warm_arms.report(design, workdir, seeds)
  bounds.keep(report, warm_arms.table(design, report), workdir, name)


if __name__ == '__main__':
  cli.run(main, required=('design',))
