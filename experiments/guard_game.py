"""Measures what a lifelong memory gives a visitor of many guards.

  python -m experiments.guard_game              # a minute
  python -m experiments.guard_game --seeds=4

Prints claims and tables and writes guard_game.json into --out. Guards and
visitors are scripted and say nothing but small talk.
"""

import json
import os

from agentrl import cli, domain
from agentrl.runtime import storage

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/guard_game', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.guard_game import study  # imports scipy

  report = study.measure(_SEEDS.value)
  print(study.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  path = os.path.join(_OUT.value, 'guard_game.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
