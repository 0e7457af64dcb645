"""Measures which memory of tool calls tells a frozen policy the next one.

  python -m experiments.tool_graph                  # seconds
  python -m experiments.tool_graph --seeds=4

Prints claims and tables and writes tool_graph.json into --out. Tools and the
policy are scripted, and nothing is trained.
"""

from agentrl import cli, domain

_SEEDS = cli.flag('seeds', 48, domain.Whole(2), 'Worlds of each kind')
_OUT = cli.flag(
  'out', 'runs/tool_graph', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.tool_graph import study  # imports scipy
  from agentrl.lab.study import bounds

  report = study.measure(_SEEDS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'tool_graph')


if __name__ == '__main__':
  cli.run(main, required=())
