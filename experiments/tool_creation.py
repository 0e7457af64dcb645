"""Measures what a library of tools gains that are written from attempts.

  python -m experiments.tool_creation              # minutes
  python -m experiments.tool_creation --seeds=4

Prints claims and tables and writes tool_creation.json into --out, beside a file
of every world, from which a command that was cut off goes on. Tools run in the
sandbox; who writes them is scripted.
"""

import json
import os

from agentrl import cli, domain
from agentrl.runtime import storage

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/tool_creation', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.tool_creation import study  # imports scipy

  os.makedirs(_OUT.value, exist_ok=True)
  report = study.measure(_SEEDS.value, _OUT.value)
  print(study.table(report))
  path = os.path.join(_OUT.value, 'tool_creation.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
