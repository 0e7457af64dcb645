"""Measures what fines, imitation and scarcity do to societies at a pool.

  python -m experiments.norms              # half a minute
  python -m experiments.norms --seeds=20

Prints claims and tables and writes norms.json into --out. Agents are scripted
and live by the rules of the environment `norms`.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 200, domain.Whole(2), 'Societies of each arm')
_OUT = cli.flag(
  'out', 'runs/norms', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.norms import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'norms')


if __name__ == '__main__':
  cli.run(main, required=())
