"""Trains an agent: supervised warm start, then reinforcement learning.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl

Repeat the command to resume the run. With --config.init=RUN, training starts
from the policy of another run in place of the warm start.
"""

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, COUNT0
from agentrl.runtime import storage

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Folder of the run', bucket=True)
_COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'HOST:PORT of process 0, for a run of several processes.'
)
_PROCESSES = cli.flag('processes', None, COUNT, 'Number of processes')
_PROCESS = cli.flag('process', None, COUNT0, 'Index of this process')


def main() -> None:
  from agentrl.runtime import (
    distributed,  # imports jax, after flags are checked
  )

  place = _COORDINATOR.value, _PROCESSES.value, _PROCESS.value
  distributed.join(distributed.process_info(*place))
  from agentrl.run import runner  # takes seconds

  print(runner.run(_CONFIG.value, storage.absolute(_WORKDIR.value)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
