"""Measures what reward programs gain that are refined from failures.

  python -m experiments.auto_mc_reward              # minutes
  python -m experiments.auto_mc_reward --seeds=4

Prints claims and tables and writes auto_mc_reward.json into --out. Programs run
in the sandbox; who designs them is scripted.
"""

import json
import os

from agentrl import cli, domain
from agentrl.runtime import storage

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/auto_mc_reward', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.auto_mc_reward import study  # imports scipy

  report = study.measure(_SEEDS.value)
  print(study.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  path = os.path.join(_OUT.value, 'auto_mc_reward.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
