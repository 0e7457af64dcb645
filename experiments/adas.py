"""Measures what a search over scaffolds of a fixed policy finds.

  python -m experiments.adas              # minutes
  python -m experiments.adas --seeds=4

Prints claims and tables and writes adas.json into --out. Policy and
services are scripted.
"""

import json
import os

from agentrl import cli, domain
from agentrl.runtime import storage

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Searches of each arm')
_OUT = cli.flag(
  'out', 'runs/adas', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.adas import study  # imports scipy

  report = study.measure(_SEEDS.value)
  print(study.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  path = os.path.join(_OUT.value, 'adas.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
