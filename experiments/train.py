"""Trains an agent: supervised warm start, then reinforcement learning.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl

Repeating the command goes on where the run was cut off. With
--config.init=RUN the policy of another run takes the warm start's place.
Short on purpose: the parts are build, stages and runner of agentrl/run, to be
used from a notebook too.
"""

import os

from absl import flags

from agentrl import cli, distributed
from agentrl.domain import COUNT, COUNT0

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Where the run is kept')
_COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'HOST:PORT of process 0, where several share the run.'
)
_PROCESSES = cli.flag('processes', None, COUNT, 'How many there are')
_PROCESS = cli.flag('process', None, COUNT0, 'Which one this is')


def main() -> None:
  distributed.join(
    distributed.place(_COORDINATOR.value, _PROCESSES.value, _PROCESS.value)
  )
  from agentrl.run import runner  # takes seconds: a wrong flag is told at once

  print(runner.run(_CONFIG.value, os.path.abspath(_WORKDIR.value)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
