"""Times several seeds as one process against one process per seed.

python -m experiments.bench_together --config=configs/grpo.py:tiny
python -m experiments.bench_together --grid=steps=20 --caches=warm
"""

from absl import flags

from agentrl import cli
from agentrl.lab.bench.sizes import CACHES, Sweep

_CONFIG = flags.DEFINE_string('config', Sweep().config, 'Config to train.')
_GRID = flags.DEFINE_multi_string(
  'grid', [], 'PATH=VALUE, as for sweep. May be repeated.'
)
_SEEDS = flags.DEFINE_integer('seeds', 5, 'Number of seeds.', lower_bound=2)
_JOBS = flags.DEFINE_integer('jobs', 2, 'Parallel processes.', lower_bound=1)
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Repeats of each.', lower_bound=1)
_PLACE = flags.DEFINE_string('place', None, 'Folder; default: a temporary one.')
_CACHES = flags.DEFINE_list('caches', CACHES, 'Compilation caches to time.')


def main() -> None:
  from agentrl.lab.bench import multi_seed  # imports jax

  what = Sweep(
    _CONFIG.value, tuple(_GRID.value), _SEEDS.value, _JOBS.value, _REPEATS.value
  )
  multi_seed.run(what, _CACHES.value, _PLACE.value)


if __name__ == '__main__':
  cli.run(main)
