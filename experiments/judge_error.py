"""Measures the credit of judged methods as their judge gets worse.

  python -m experiments.judge_error                  # all of them, minutes
  python -m experiments.judge_error --methods=adca,cm2 --seeds=2

Prints a table and writes judge_error.json and judge_error.png into --out. The
judge knows the truth of every turn (bifurcation); its verdicts are turned round
at a rate, or lean towards long messages.
"""

import json
import os

from absl import flags

from agentrl import cli, domain
from agentrl.lab.papers.credit.size import CreditSize
from agentrl.runtime import storage

_METHODS = flags.DEFINE_list('methods', None, 'Methods; default: all.')
_SEEDS = cli.flag('seeds', 8, domain.COUNT, 'What the policy sampled')
_OUT = cli.flag(
  'out', 'runs/judge_error', domain.Path(empty=False), 'Folder to write to'
)


def main() -> None:
  import jax  # takes seconds

  from agentrl.lab.papers.judge_error import study as judge_error

  # Programs are small and run a few times: most of the time is compilation.
  jax.config.update('jax_disable_most_optimizations', True)
  names = _METHODS.value or judge_error.METHODS
  size = CreditSize()._replace(seeds=_SEEDS.value)
  report = judge_error.measure(size, names)
  print(judge_error.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  judge_error.picture(report, os.path.join(_OUT.value, 'judge_error.png'))
  path = os.path.join(_OUT.value, 'judge_error.json')
  storage.write(path, json.dumps(report, indent=2) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
