"""Plays held-out tasks with the newest policy of a run, or any model.

  python -m experiments.eval --workdir=runs/oprl --episodes=1000
  python -m experiments.eval --address=http://HOST/v1 --model=NAME \
    --env=countdown --settings='numbers=3'

Prints success with its 95% interval and logs some trajectories for the viewer
below <workdir>/evaluations, or --out. The run's own metrics do not change. With
--address a server's model plays an environment or, with --workdir, the tasks of
that run within its limits. With --attempts=k a table says what is gained by
selecting one of k attempts at each task.
"""

from agentrl import cli
from agentrl.domain import COUNT, SEED, Path, Real, Text, Whole
from agentrl.runtime import storage

_WORKDIR = cli.workdir_flag('Run to evaluate', bucket=True)
_EPISODES = cli.flag('episodes', 1000, COUNT, 'Number of episodes')
_ATTEMPTS = cli.flag('attempts', 1, Whole(1, 16), 'Attempts at each task')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Temperature of the sampling; 0: greedy'
)
_LEVELS = cli.flag(
  'levels', None, Path(empty=False), 'Sokoban levels to play instead'
)
_LIMIT = cli.flag('limit', None, COUNT, 'Most turns; default: as trained')
_SEED = cli.flag('seed', 0, SEED, 'Seed of the sampling')
_ADDRESS = cli.flag('address', '', Text(), "Of a server: 'http://HOST/v1'")
_MODEL = cli.flag('model', '', Text(), 'Name of a model of that server')
_KEY_ENV = cli.flag('key_env', 'OPENAI_API_KEY', Text(), 'Variable of its key')
_CONCURRENCY = cli.flag('concurrency', 16, COUNT, 'Episodes at a time')
_ENV = cli.flag('env', '', Text(), 'Environment to play with --address')
_SETTINGS = cli.flag('settings', '', Text(), "Of --env: 'numbers=3, ...'")
_OUT = cli.flag('out', None, Path(empty=False), 'Folder of trajectories')


def main() -> None:
  # Takes seconds: a wrong flag is reported before.
  from agentrl.run import evaluation, runner

  run = _WORKDIR.value and storage.absolute(_WORKDIR.value)
  flags = dict(episodes=_EPISODES, seed=_SEED, attempts=_ATTEMPTS)
  more = {name: x.value for name, x in flags.items()}
  evaluation.check_flags(run, _ENV.value, _ADDRESS.value, _LEVELS.value)
  if not _ADDRESS.value:
    more |= {'levels': _LEVELS.value, 'limit': _LIMIT.value}
    print(runner.evaluate_run(run, temperature=_TEMPERATURE.value, **more))
    return
  c = evaluation.config_of(run, _ENV.value, _SETTINGS.value, _LIMIT.value)
  server = _ADDRESS.value, _MODEL.value, _KEY_ENV.value
  endpoint = evaluation.endpoint(*server, _TEMPERATURE.value, c)
  out = _OUT.value or evaluation.folder(run, c, endpoint)
  more['concurrency'] = _CONCURRENCY.value
  print(evaluation.evaluate_address(c, endpoint, out, **more))


if __name__ == '__main__':
  cli.run(main)
