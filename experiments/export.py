"""Writes a run's newest policy as a directory that `transformers` loads.

  python -m experiments.export --workdir=runs/qwen --out=exported

The run was started with --config.model.path=DIR; the output is a copy of DIR
with the learned weights.
"""

from agentrl import cli
from agentrl.domain import Path
from agentrl.runtime import storage

_WORKDIR = cli.workdir_flag('Run to export', bucket=True)
_OUT = cli.flag('out', None, Path(empty=False), 'Directory without weights')


def main() -> None:
  # Takes seconds: a wrong flag is reported before.
  from agentrl.run import weights

  weights.export(storage.absolute(_WORKDIR.value), _OUT.value)
  print(f'{_OUT.value} holds the newest policy of {_WORKDIR.value}')


if __name__ == '__main__':
  cli.run(main, required=('workdir', 'out'))
