"""Measures what a library of tools gains that are written from attempts.

  python -m experiments.tool_creation              # minutes
  python -m experiments.tool_creation --seeds=4

Prints claims and tables and writes tool_creation.json into --out, beside a file
of every world, from which a command that was cut off goes on. Tools run in the
sandbox; who writes them is scripted.
"""

import os

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/tool_creation', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.tool_creation import study  # imports scipy
  from agentrl.lab.study import bounds

  os.makedirs(_OUT.value, exist_ok=True)
  report = study.measure(_SEEDS.value, _OUT.value)
  bounds.keep(report, study.table(report), _OUT.value, 'tool_creation')


if __name__ == '__main__':
  cli.run(main, required=())
