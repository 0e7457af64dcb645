"""Runs a config under many changes, as many at a time as asked for.

  python -m experiments.sweep --config=configs/oprl.py --workdir=runs/lr \
    --grid=role.policy.lr=3e-4,6e-4,1e-3 --seeds=5 --jobs=2

With --together=5 the five seeds are one process, as in together.py. Runs share
what they compile, in .cache/jax below --workdir. --cluster=slurm sends them to
a cluster instead, through submitit.

Every run has its folder below --workdir, named by its changes. Repeating the
command skips what is finished and goes on with what was cut off. A config
file with a function sweep(add) brings changes of its own (see sweep/grid.py).
"""

import os
import sys

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, Whole
from agentrl.run.lock import Lock
from agentrl.sweep import slurm

_CONFIG = flags.DEFINE_string('config', None, 'The experiment, as for train.')
_WORKDIR = cli.workdir_flag('Where the runs are kept')
_GRID = flags.DEFINE_multi_string('grid', [], 'PATH=VALUE,VALUE,...; again.')
_SEEDS = cli.flag('seeds', 0, Whole(0, 10**5), 'Seeds 0, 1, ...; 0: its own')
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
  from agentrl.sweep import runs  # imports jax

  workdir = os.path.abspath(_WORKDIR.value)
  changes = runs.expand(_CONFIG.value, _GRID.value, _SEEDS.value)
  plan = runs.plan(_CONFIG.value, changes, workdir)
  if _LIST.value:
    print('\n'.join(' '.join(r.job.command) for r in plan))
    return
  with Lock(workdir):  # two sweeps would take each other's runs for failed
    pool = slurm.pool(_CLUSTER.value, _OPTIONS.value, workdir)
    statuses = runs.run(plan, _JOBS.value, _TOGETHER.value, pool)
    print(runs.table(plan))
  if any(statuses.values()):
    sys.exit(1)


if __name__ == '__main__':
  cli.run(main, required=('config', 'workdir'))
