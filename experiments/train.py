"""Trains an agent: supervised warm start, then reinforcement learning.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl

Repeating the command goes on where the run was cut off. With
--config.init=RUN the policy of another run takes the warm start's place.
Short on purpose: the parts are in build.py, staging.py and runner.py, to be
used from a notebook too.
"""

import os

from absl import flags
from ml_collections import config_flags

from agentrl.domain import COUNT, COUNT0, Path
from experiments import cli, processes

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'The experiment, e.g. configs/oprl.py:tiny', lock_config=True
)
_WORKDIR = cli.flag('workdir', None, Path(empty=False), 'Where the run is kept')
_COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'HOST:PORT of process 0, where several share the run.'
)
_PROCESSES = cli.flag('processes', None, COUNT, 'How many there are')
_PROCESS = cli.flag('process', None, COUNT0, 'Which one this is')


def main() -> None:
  processes.join(
    processes.place(_COORDINATOR.value, _PROCESSES.value, _PROCESS.value)
  )
  from experiments import runner  # takes seconds: a wrong flag is told at once

  print(runner.run(_CONFIG.value, os.path.abspath(_WORKDIR.value)))


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
