"""Talks with the agent of a run in the terminal, where you are the user.

  python -m experiments.chat --workdir=runs/mine

A line is a message, and q ends the conversation. Tools that the agent calls are
those of its world, on a held-out task. What was trained on one turn reads each
message alone. What was said is a trajectory of the viewer, below
<workdir>/conversations or in --out.
"""

import os
import sys

from agentrl import cli
from agentrl.domain import SEED, Path, Real
from agentrl.runtime import storage

_WORKDIR = cli.workdir_flag('Run whose agent talks')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Temperature of the agent; 0: greedy'
)
_SEED = cli.flag('seed', 0, SEED, 'Seed of the sampling and of the task')
_OUT = cli.flag('out', None, Path(empty=False), 'Folder of the trajectory')


def main() -> None:
  from agentrl.serve import chat, keyboard  # takes seconds

  def show(text: str, by: str) -> None:
    print(f'{by}: {text}' if by else text, flush=True)

  run = storage.absolute(_WORKDIR.value)
  out = _OUT.value or chat.free_folder(os.path.join(run, 'conversations'))
  lines = keyboard.lines(sys.stdin)
  how = {'temperature': _TEMPERATURE.value, 'seed': _SEED.value, 'out': out}
  print(chat.converse(run, lines, show, **how))


if __name__ == '__main__':
  cli.run(main, required=('workdir',))
