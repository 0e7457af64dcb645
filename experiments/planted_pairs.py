"""Measures which scorers still rank trajectories when these are long.

  python -m experiments.planted_pairs            # 5 seeds, 6 minutes each
  python -m experiments.planted_pairs --seeds=2

Plants faults in solutions of Sokoban, has reward models, an implicit PRM, a
policy and a judge choose between both, prints claims and tables, and writes
planted_pairs.json into --workdir. Repeat the command to resume.
"""

import os

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 5, domain.Whole(2, 5), 'Seeds to measure')
_WORKDIR = cli.flag(
  'workdir',
  'runs/planted_pairs',
  domain.Path(empty=False),
  'Folder of levels and results',
)


def main() -> None:
  from agentrl.lab.papers.planted_pairs import study  # imports jax
  from agentrl.lab.study import bounds
  from agentrl.runtime.lock import Lock

  workdir = os.path.abspath(_WORKDIR.value)
  with Lock(workdir):
    report = study.report(workdir, _SEEDS.value)
  bounds.keep(report, study.table(report), workdir, 'planted_pairs')


if __name__ == '__main__':
  cli.run(main, required=())
