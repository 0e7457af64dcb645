"""The supervised warm start alone: imitates the solver's demonstrations.

  python -m experiments.sft --config=configs/grpo.py --workdir=runs/sft

Its run folder is one of any run: other runs begin from it with
--config.init=runs/sft, and `experiments.train` with the same config and the
same --workdir goes on with reinforcement learning.
"""

import os

from agentrl import cli

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Where the run is kept')


def main() -> None:
  from agentrl.run import runner  # takes seconds: a wrong flag is told at once

  workdir = os.path.abspath(_WORKDIR.value)
  print(runner.run(_CONFIG.value, workdir, stages=('sft',)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
