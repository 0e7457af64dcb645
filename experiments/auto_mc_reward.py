"""Measures what reward programs gain that are refined from failures.

  python -m experiments.auto_mc_reward              # minutes
  python -m experiments.auto_mc_reward --seeds=4

Prints claims and tables and writes auto_mc_reward.json into --out. Programs run
in the sandbox; who designs them is scripted.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 16, domain.Whole(2), 'Worlds of each arm')
_OUT = cli.flag(
  'out', 'runs/auto_mc_reward', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.auto_mc_reward import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'auto_mc_reward')


if __name__ == '__main__':
  cli.run(main, required=())
