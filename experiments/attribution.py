"""Measures who finds the sentence that made a small agent act.

  python -m experiments.attribution                 # minutes
  python -m experiments.attribution --policies=2 --conversations=100

Trains small policies, prints claims and tables and writes attribution.json into
--out. Causes are planted; no language model takes part.
"""

from agentrl import cli, domain

_POLICIES = cli.flag('policies', 5, domain.Whole(2), 'Policies to train')
_CONVERSATIONS = cli.flag(
  'conversations', 500, domain.Whole(10), 'Conversations of each world'
)
_OUT = cli.flag(
  'out', 'runs/attribution', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  from agentrl.lab.papers.attribution import study  # imports jax
  from agentrl.lab.study import bounds

  report = study.measure(_POLICIES.value, _CONVERSATIONS.value)
  bounds.keep(report, study.table(report), _OUT.value, 'attribution')


if __name__ == '__main__':
  cli.run(main, required=())
