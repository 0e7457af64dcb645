"""Worlds that are slow now and then: nobody waits, against lock-step.

python -m experiments.bench_waiting
"""

from absl import flags

from agentrl import cli
from agentrl.bench import slow_envs
from agentrl.bench.slow_envs import Size

_SIZE = Size()
_COUNTS = {
  name: flags.DEFINE_integer(name, value, f'Size.{name}', lower_bound=1)
  for name, value in _SIZE._asdict().items()
  if isinstance(value, int)
}
_MEDIAN = flags.DEFINE_float('median', _SIZE.median, 'Seconds of a tool call.')
_LONG = flags.DEFINE_float('long', _SIZE.long, 'Seconds that 2% exceed.')


def main() -> None:
  counts = {name: flag.value for name, flag in _COUNTS.items()}
  slow_envs.run(Size(median=_MEDIAN.value, long=_LONG.value, **counts))


if __name__ == '__main__':
  cli.run(main)
