"""Times what credit assignment adds to an iteration, method by method.

python -m experiments.bench_credit
python -m experiments.bench_credit --methods=grpo,gigpo --trajectories=64
"""

from absl import flags

from agentrl import cli
from agentrl.bench import advantage_cost

_METHODS = flags.DEFINE_list('methods', [], 'Configs; all where not given.')
_SIZE = {
  name: flags.DEFINE_integer(name, value, f'Size.{name}', lower_bound=1)
  for name, value in advantage_cost.Size()._asdict().items()
}


def main() -> None:
  size = {name: flag.value for name, flag in _SIZE.items()}
  advantage_cost.run(_METHODS.value, advantage_cost.Size(**size))


if __name__ == '__main__':
  cli.run(main)
