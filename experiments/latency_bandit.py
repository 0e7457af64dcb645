"""Measures when fast arms win for being fast, and what weights do about it.

  python -m experiments.latency_bandit             # minutes
  python -m experiments.latency_bandit --seeds=4 --updates=100

Prints claims and a table and writes latency_bandit.json and latency_bandit.png
into --out. Workers and their time are simulated.
"""

import os

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 24, domain.Whole(2), 'Runs of each cell')
_UPDATES = cli.flag('updates', 600, domain.COUNT, 'Updates of a run')
_OUT = cli.flag(
  'out', 'runs/latency_bandit', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.latency_bandit import study  # imports jax
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value, _UPDATES.value)
  bounds.keep(report, study.table(report), _OUT.value, 'latency_bandit')
  study.picture(report, os.path.join(_OUT.value, 'latency_bandit.png'))


if __name__ == '__main__':
  cli.run(main, required=())
