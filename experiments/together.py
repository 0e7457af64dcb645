"""Several seeds of one config as one program.

  python -m experiments.together --config=configs/grpo.py:tiny \
    --seeds=0,1,2,3,4 --workdir=runs/five

Each seed has a folder below --workdir, as experiments.train would have made
it; either of the two goes on with what the other began. On CPU every seed
gets a simulated device of its own. The seconds in their metrics are those of
the program, which all of them share.
"""

import os

import jax
from absl import flags

from agentrl import cli
from agentrl.sweep import grid

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Where the runs are kept')
_SEEDS = flags.DEFINE_list('seeds', None, 'Their seeds, e.g. 0,1,2.')
_INIT = flags.DEFINE_multi_string('init', [], "Each seed's config.init; again.")
_FOLDER = flags.DEFINE_multi_string(
  'folder', [], "Each seed's folder below --workdir, else by its name; again."
)


def main() -> None:
  runs = grid.of_seeds(_SEEDS.value, _INIT.value)
  names = _FOLDER.value or [grid.name_of(x) for x in runs]
  if len(names) != len(runs):
    raise ValueError(
      f'--folder is given {len(names)} times and there are {len(runs)} seeds;'
      ' give it once for each seed, or not at all'
    )
  if len(set(names)) < len(names):
    raise ValueError(
      f'two of the runs {", ".join(names)} have one folder; name each seed once'
    )
  jax.config.update('jax_num_cpu_devices', len(runs))
  from agentrl.run import run_seeds  # takes seconds

  base, workdir = _CONFIG.value, os.path.abspath(_WORKDIR.value)
  configs = [grid.change(base.copy_and_resolve_references(), x) for x in runs]
  for text in run_seeds.run(configs, [os.path.join(workdir, x) for x in names]):
    print(text, end='\n\n')


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir', 'seeds'))
