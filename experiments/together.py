"""Trains several seeds of one config as one program.

  python -m experiments.together --config=configs/grpo.py:tiny \
    --seeds=0,1,2,3,4 --workdir=runs/five

Each seed has a folder below --workdir, as experiments.train would have made
it; either command resumes a run of the other. On CPU every
seed has a simulated device. Seconds in their metrics are those of the whole
program.
"""

import os

from absl import flags

from agentrl import cli
from agentrl.run import config_file
from agentrl.runtime import storage

_CONFIG = cli.config_flag()
_WORKDIR = cli.workdir_flag('Where the runs are kept', bucket=True)
_SEEDS = flags.DEFINE_list('seeds', None, 'Seeds to train, e.g. 0,1,2.')
_INIT = flags.DEFINE_multi_string(
  'init', [], "A seed's config.init; may be repeated."
)
_FOLDER = flags.DEFINE_multi_string(
  'folder', [], "A seed's folder below --workdir; may be repeated."
)


def main() -> None:
  import jax  # takes a second

  from agentrl.lab.sweep import grid

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
  from agentrl.run import runner  # takes seconds

  base, workdir = _CONFIG.value, storage.absolute(_WORKDIR.value)
  configs = [
    config_file.change(base.copy_and_resolve_references(), x) for x in runs
  ]
  folders = [os.path.join(workdir, x) for x in names]
  for text in runner.run_seeds(configs, folders):
    print(text, end='\n\n')


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir', 'seeds'))
