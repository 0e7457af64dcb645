"""Measures what a lifelong memory gives a visitor of many guards.

  python -m experiments.guard_game              # a minute
  python -m experiments.guard_game --seeds=4

Prints claims and tables and writes guard_game.json into --out. Guards and
visitors are scripted and say nothing but small talk.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/guard_game', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.guard_game import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'guard_game')


if __name__ == '__main__':
  cli.run(main, required=())
