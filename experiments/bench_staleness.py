"""Times collecting beside the updates, in environments that sleep or compute.

python -m experiments.bench_staleness --world=countdown
"""

from agentrl import cli
from agentrl.domain import OneOf
from agentrl.lab.bench.sizes import StalenessBenchSize

_WORLD = cli.flag(
  'world',
  'sleeping',
  OneOf('sleeping', 'countdown', 'sokoban'),
  'Environment: one that sleeps, one with calls, one inside jit on devices of'
  ' its own',
)
_COUNTS = cli.counts(StalenessBenchSize())


def main() -> None:
  from agentrl.lab.bench import staleness  # imports jax

  staleness.run(StalenessBenchSize(**_COUNTS()), _WORLD.value)


if __name__ == '__main__':
  cli.run(main)
