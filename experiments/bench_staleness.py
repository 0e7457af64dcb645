"""Times collecting beside the updates, in environments that sleep.

python -m experiments.bench_staleness
"""

from agentrl import cli
from agentrl.lab.bench.sizes import StalenessBenchSize

_COUNTS = cli.counts(StalenessBenchSize())


def main() -> None:
  from agentrl.lab.bench import staleness  # imports jax

  staleness.run(StalenessBenchSize(**_COUNTS()))


if __name__ == '__main__':
  cli.run(main)
