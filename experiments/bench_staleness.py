"""Times collecting beside the updates, in environments that sleep.

python -m experiments.bench_staleness
"""

from absl import flags

from agentrl import cli
from agentrl.lab.bench.sizes import StalenessBenchSize

_SIZE = StalenessBenchSize()
_COUNTS = {
  name: flags.DEFINE_integer(name, value, f'Size.{name}', lower_bound=1)
  for name, value in _SIZE._asdict().items()
  if isinstance(value, int)
}


def main() -> None:
  from agentrl.lab.bench import staleness  # imports jax

  counts = {name: flag.value for name, flag in _COUNTS.items()}
  staleness.run(StalenessBenchSize(**counts))


if __name__ == '__main__':
  cli.run(main)
