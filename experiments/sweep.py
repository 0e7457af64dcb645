"""Runs a config under many changes, as many at a time as asked for.

  python -m experiments.sweep --config=configs/oprl.py --workdir=runs/lr \
    --grid=role.policy.lr=3e-4,6e-4,1e-3 --seeds=5 --jobs=2

With --together=5 the five seeds are one process (see together.py). Runs share
what they compile, in .cache/jax below --workdir.

--cluster=slurm sends them to a cluster instead, through submitit.

Every run has its folder below --workdir, named by its changes. Repeating the
command skips what is finished and goes on with what was cut off. A config
file with a function sweep(add) brings changes of its own (see space.py).
"""

import os
import sys

from absl import flags

from agentrl.domain import COUNT, Path, Whole
from agentrl.lock import Lock
from experiments import cli, cluster, space

_CONFIG = flags.DEFINE_string('config', None, 'A config, as for train.')
_WORKDIR = cli.flag(
  'workdir', None, Path(empty=False), 'Where the runs are kept'
)
_GRID = flags.DEFINE_multi_string('grid', [], 'PATH=VALUE,VALUE,...; again.')
_SEEDS = cli.flag(
  'seeds', 0, Whole(0, 100_000), 'Seeds 0, 1, ... of every run; 0: its own'
)
_JOBS = cli.flag('jobs', 1, COUNT, 'Runs at a time')
_TOGETHER = cli.flag(
  'together', 1, COUNT, 'Runs of a process, if they differ in seed or init only'
)
_CLUSTER = flags.DEFINE_enum(
  'cluster', None, ['slurm', 'local'], 'Where submitit runs them, if given.'
)
_OPTIONS = flags.DEFINE_string(
  'cluster_options', '', 'Told to submitit: slurm_partition=gpu,timeout_min=90.'
)
_LIST = flags.DEFINE_bool('list', False, 'Print the runs and do nothing.')


def main() -> None:
  from experiments import sweeping  # imports jax

  if _CONFIG.value is None:
    raise ValueError(
      'the flag --config is missing: the experiment, e.g. configs/oprl.py:tiny'
    )
  path = _CONFIG.value.partition(':')[0]
  module = sweeping.load(path)
  axes = [space.axis(text) for text in _GRID.value]
  sweep = module.sweep if 'sweep' in vars(module) else None
  runs = space.expand(sweep, axes, _SEEDS.value)
  workdir = os.path.abspath(_WORKDIR.value)
  plan = sweeping.plan(_CONFIG.value, runs, workdir)
  if _LIST.value:
    print('\n'.join(' '.join(r.job.command) for r in plan))
    return
  with Lock(workdir):  # two sweeps would take each other's runs for failed
    statuses = sweeping.run(plan, _JOBS.value, _TOGETHER.value, runner(workdir))
    print(sweeping.table(plan))
  if any(statuses.values()):
    sys.exit(1)


def runner(workdir: str):
  """What runs the jobs, in place of this machine's pool."""
  if not _CLUSTER.value:
    return None
  told = cluster.options(_OPTIONS.value)
  folder = os.path.join(workdir, '.submitit')

  def run(jobs, places, look):
    return cluster.run(jobs, _CLUSTER.value, folder, told, look)

  return run


if __name__ == '__main__':
  cli.run(main, required=('workdir',))
