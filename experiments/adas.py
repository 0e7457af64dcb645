"""Measures what a search over scaffolds of a fixed policy finds.

  python -m experiments.adas              # minutes
  python -m experiments.adas --seeds=4

Prints claims and tables and writes adas.json into --out. Policy and
services are scripted.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Searches of each arm')
_OUT = cli.flag(
  'out', 'runs/adas', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.adas import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'adas')


if __name__ == '__main__':
  cli.run(main, required=())
