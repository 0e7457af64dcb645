"""Times asynchronous against lock-step sampling in slow environments.

python -m experiments.bench_waiting
"""

from absl import flags

from agentrl import cli
from agentrl.lab.bench.sizes import SlowEnvBenchSize

_SIZE = SlowEnvBenchSize()
_COUNTS = cli.counts(_SIZE)
_MEDIAN = flags.DEFINE_float('median', _SIZE.median, 'Median call, seconds.')
_LONG = flags.DEFINE_float('long', _SIZE.long, '98% quantile, seconds.')


def main() -> None:
  from agentrl.lab.bench import slow_envs  # imports jax

  slow_envs.run(
    SlowEnvBenchSize(median=_MEDIAN.value, long=_LONG.value, **_COUNTS())
  )


if __name__ == '__main__':
  cli.run(main)
