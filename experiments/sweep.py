"""Runs a config with many changes, several at a time.

  python -m experiments.sweep --config=configs/oprl.py --workdir=runs/lr \
    --grid=role.policy.lr=3e-4,6e-4,1e-3 --seeds=5 --jobs=2

With --together=5 the five seeds are one process, as in together.py. Runs share
a compilation cache, .cache/jax below --workdir. --cluster=slurm submits them to
a cluster with submitit.

Every run has its folder below --workdir, named by its changes. Repeat the
command to resume: finished runs are skipped. A config file may add changes of
its own with a function sweep(add) (see sweep/grid.py).
"""

import os
import sys

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, Whole

_CONFIG = flags.DEFINE_string('config', None, 'Config to train, as for train.')
_WORKDIR = cli.workdir_flag('Folder for the runs')
_GRID = flags.DEFINE_multi_string('grid', [], 'PATH=VALUE,...; repeatable.')
_SEEDS = cli.flag('seeds', 0, Whole(0, 10**5), "Seeds; 0: the config's own")
_JOBS = cli.flag('jobs', 1, COUNT, 'Runs in parallel')
_TOGETHER = cli.flag(
  'together', 1, COUNT, 'Runs per process, if they differ only in seed or init'
)
_CLUSTER = flags.DEFINE_enum(
  'cluster', None, ['slurm', 'local'], 'Executor of submitit to run them.'
)
_OPTIONS = flags.DEFINE_string(
  'cluster_options', '', 'For submitit: slurm_partition=gpu,timeout_min=90.'
)
_LIST = flags.DEFINE_bool('list', False, 'Only print the runs.')


def main() -> None:
  from agentrl.lab.sweep import runs, slurm  # imports jax
  from agentrl.runtime.lock import Lock

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
