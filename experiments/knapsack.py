"""Measures which components of an agent are worth buying, one by one.

  python -m experiments.knapsack                    # a minute
  python -m experiments.knapsack --inventories=20

Prints claims and tables and writes knapsack.json into --out. Inventories are
drawn; probes of components are simulated.
"""

from agentrl import cli, domain

_INVENTORIES = cli.flag(
  'inventories', 200, domain.Whole(2), 'Inventories to draw'
)
_OUT = cli.flag(
  'out', 'runs/knapsack', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.knapsack import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_INVENTORIES.value)
  bounds.keep(report, study.table(report), _OUT.value, 'knapsack')


if __name__ == '__main__':
  cli.run(main, required=())
