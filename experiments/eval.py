"""Plays held-out tasks with the newest policy of a run.

  python -m experiments.eval --workdir=runs/oprl --episodes=1000

Prints success with its 95% interval and logs some trajectories for the viewer
below <workdir>/evaluations. The run's own metrics stay as they are.
"""

import os

from absl import flags

from experiments import cli

_WORKDIR = flags.DEFINE_string('workdir', None, 'The run to evaluate.')
_EPISODES = flags.DEFINE_integer('episodes', 1000, 'How many to play.', 1)
_TEMPERATURE = flags.DEFINE_float('temperature', 1.0, 'Of sampling.', 0.0)
_LEVELS = flags.DEFINE_string('levels', None, 'Another Sokoban level file.')
_LIMIT = flags.DEFINE_integer('limit', None, 'Turns; default as trained.', 1)
_SEED = flags.DEFINE_integer('seed', 0, 'Of the sampling.')


def main() -> None:
  from experiments import runner  # takes seconds: a wrong flag is told at once

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
