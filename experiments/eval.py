"""Plays held-out tasks with the newest policy of a run.

  python -m experiments.eval --workdir=runs/oprl --episodes=1000

Prints success with its 95% interval and logs some trajectories for the viewer
below <workdir>/evaluations. The run's own metrics do not change.
"""

from agentrl import cli, storage
from agentrl.domain import COUNT, SEED, Path, Real

_WORKDIR = cli.workdir_flag('Run to evaluate', bucket=True)
_EPISODES = cli.flag('episodes', 1000, COUNT, 'Number of episodes')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Temperature of the sampling; 0: greedy'
)
_LEVELS = cli.flag(
  'levels', None, Path(empty=False), 'Sokoban levels to play instead'
)
_LIMIT = cli.flag('limit', None, COUNT, 'Most turns; default: as trained')
_SEED = cli.flag('seed', 0, SEED, 'Seed of the sampling')


def main() -> None:
  # Takes seconds: a wrong flag is reported before.
  from agentrl.run import runner

  text = runner.evaluate_run(
    storage.absolute(_WORKDIR.value),
    episodes=_EPISODES.value,
    temperature=_TEMPERATURE.value,
    levels=_LEVELS.value,
    limit=_LIMIT.value,
    seed=_SEED.value,
  )
  print(text)


if __name__ == '__main__':
  cli.run(main, required=('workdir',))
