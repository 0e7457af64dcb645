"""Measures which components of an agent are worth buying, one by one.

  python -m experiments.knapsack                    # a minute
  python -m experiments.knapsack --inventories=20

Prints claims and tables and writes knapsack.json into --out. Inventories are
drawn; probes of components are simulated.
"""

import json
import os

from agentrl import cli, domain
from agentrl.runtime import storage

_INVENTORIES = cli.flag(
  'inventories', 200, domain.Whole(2), 'Inventories to draw'
)
_OUT = cli.flag(
  'out', 'runs/knapsack', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.knapsack import study  # imports scipy

  report = study.measure(_INVENTORIES.value)
  print(study.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  path = os.path.join(_OUT.value, 'knapsack.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
