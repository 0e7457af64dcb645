"""The supervised warm start alone: imitates the solver's demonstrations.

  python -m experiments.sft --config=configs/grpo.py --workdir=runs/sft

Its run folder is one of any run: other runs begin from it with
--config.init=runs/sft, and `experiments.train` with the same config and the
same --workdir goes on with reinforcement learning.
"""

import os

from ml_collections import config_flags

from agentrl.domain import Path
from experiments import cli

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'The experiment, e.g. configs/grpo.py:tiny', lock_config=True
)
_WORKDIR = cli.flag('workdir', None, Path(empty=False), 'Where the run is kept')


def main() -> None:
  from experiments import runner  # takes seconds: a wrong flag is told at once

  workdir = os.path.abspath(_WORKDIR.value)
  print(runner.run(_CONFIG.value, workdir, stages=('sft',)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
