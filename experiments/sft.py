"""Trains only the supervised warm start, on the solver's demonstrations.

  python -m experiments.sft --config=configs/grpo.py --workdir=runs/sft

Other runs can start from it with --config.init=runs/sft; `experiments.train`
with the same config and --workdir continues it with reinforcement learning.
"""

from agentrl import cli
from agentrl.runtime import storage

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Folder of the run', bucket=True)


def main() -> None:
  # Takes seconds: a wrong flag is reported before.
  from agentrl.run import runner

  workdir = storage.absolute(_WORKDIR.value)
  print(runner.run(_CONFIG.value, workdir, stages=('sft',)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
