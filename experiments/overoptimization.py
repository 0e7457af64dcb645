"""Measures where choosing the best of n by a reward model stops helping.

  python -m experiments.overoptimization            # 10 runs, 3 minutes each
  python -m experiments.overoptimization --seeds=2

Trains a reward model on the labels of someone with a planted fault, computes
the best of n by it, prints claims and tables, and writes overoptimization.json
into --workdir. Repeat the command to resume.
"""

import os

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 5, domain.Whole(2, 5), 'Runs of each protocol')
_WORKDIR = cli.flag(
  'workdir',
  'runs/overoptimization',
  domain.Path(empty=False),
  'Folder for the runs',
)


def main() -> None:
  from agentrl.lab.papers.overoptimization import study  # imports jax
  from agentrl.lab.study import bounds
  from agentrl.runtime.lock import Lock

  workdir = os.path.abspath(_WORKDIR.value)
  with Lock(workdir):
    report = study.report(workdir, _SEEDS.value)
  bounds.keep(report, study.table(report), workdir, 'overoptimization')


if __name__ == '__main__':
  cli.run(main, required=())
