"""Benchmarks credit assignment: what it adds to an iteration, by method.

python -m experiments.bench_credit
python -m experiments.bench_credit --methods=grpo,gigpo --trajectories=64
"""

from absl import flags

from agentrl import cli
from agentrl.lab.bench.sizes import AdvantageBenchSize

_METHODS = flags.DEFINE_list('methods', [], 'Methods to time; default: all.')
_COUNTS = cli.counts(AdvantageBenchSize())


def main() -> None:
  from agentrl.lab.bench import advantage_cost  # imports jax

  advantage_cost.run(_METHODS.value, AdvantageBenchSize(**_COUNTS()))


if __name__ == '__main__':
  cli.run(main)
