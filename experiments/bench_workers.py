"""Times environments in threads, processes and clusters.

python -m experiments.bench_workers
"""

from agentrl import cli
from agentrl.lab.bench.sizes import EnvWorkersBenchSize

_COUNTS = cli.counts(EnvWorkersBenchSize())


def main() -> None:
  from agentrl.lab.bench import env_workers  # slow to import

  env_workers.run(EnvWorkersBenchSize(**_COUNTS()))


if __name__ == '__main__':
  cli.run(main)
