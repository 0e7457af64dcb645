"""Plays held-out tasks with the newest policy of a run.

  python -m experiments.eval --workdir=runs/oprl --episodes=1000

Prints success with its 95% interval and logs some trajectories for the viewer
below <workdir>/evaluations. The run's own metrics stay as they are.
"""

import os

from agentrl import cli
from agentrl.domain import COUNT, SEED, Path, Real

_WORKDIR = cli.workdir_flag('The run to evaluate')
_EPISODES = cli.flag('episodes', 1000, COUNT, 'How many to play')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Of sampling; 0: greedy'
)
_LEVELS = cli.flag(
  'levels', None, Path(empty=False), 'Another Sokoban level file'
)
_LIMIT = cli.flag('limit', None, COUNT, 'Turns; default as trained')
_SEED = cli.flag('seed', 0, SEED, 'Of the sampling')


def main() -> None:
  from agentrl.run import runner  # takes seconds: a wrong flag is told at once

  text = runner.evaluate_run(
    os.path.abspath(_WORKDIR.value),
    episodes=_EPISODES.value,
    temperature=_TEMPERATURE.value,
    levels=_LEVELS.value,
    limit=_LIMIT.value,
    seed=_SEED.value,
  )
  print(text)


if __name__ == '__main__':
  cli.run(main, required=('workdir',))
