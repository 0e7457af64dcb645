"""Writes a run's newest policy as a directory that `transformers` loads.

  python -m experiments.export --workdir=runs/qwen --out=exported

The run began with --config.model.path=DIR: the directory is DIR with the
weights that were learned.
"""

import os

from agentrl import cli
from agentrl.domain import Path

_WORKDIR = cli.workdir_flag('The run to export')
_OUT = cli.flag('out', None, Path(empty=False), 'A directory without weights')


def main() -> None:
  from agentrl.run import workdir  # takes seconds: a wrong flag is told at once

  workdir.export(os.path.abspath(_WORKDIR.value), _OUT.value)
  print(f'{_OUT.value} holds the newest policy of {_WORKDIR.value}')


if __name__ == '__main__':
  cli.run(main, required=('workdir', 'out'))
