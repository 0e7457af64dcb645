"""Measures what a population of instructions finds under a budget.

  python -m experiments.instructions                # a minute
  python -m experiments.instructions --seeds=8 --budget=500

Prints claims and tables and writes instructions.json into --out. The policy and
the service that proposes are scripted.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 64, domain.Whole(2), 'Searches of each arm')
_BUDGET = cli.flag('budget', 2000, domain.Whole(100), 'Attempts of a search')
_OUT = cli.flag(
  'out', 'runs/instructions', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.instructions import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value, _BUDGET.value)
  bounds.keep(report, study.table(report), _OUT.value, 'instructions')


if __name__ == '__main__':
  cli.run(main, required=())
