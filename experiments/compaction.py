"""Measures what summaries of a compacted conversation are worth.

  python -m experiments.compaction --jobs=2         # 20 runs, an hour
  python -m experiments.compaction --seeds=2

Trains warm starts, then the four arms from them, prints claims and a table, and
writes compaction.json into --workdir. Repeat the command to resume.
"""

import json
import os
import sys

from agentrl import cli, domain
from agentrl.runtime import storage

_SEEDS = cli.flag('seeds', 5, domain.Whole(2), 'Runs of each arm')
_JOBS = cli.flag('jobs', 1, domain.COUNT, 'Arms in parallel')
_WORKDIR = cli.flag(
  'workdir', 'runs/compaction', domain.Path(empty=False), 'Folder for the runs'
)


def main() -> None:
  from agentrl.lab.papers.compaction import study  # imports jax
  from agentrl.runtime.lock import Lock

  workdir = os.path.abspath(_WORKDIR.value)
  with Lock(workdir):
    if not study.run(workdir, _JOBS.value, _SEEDS.value):
      sys.exit(1)
  report = study.report(workdir, _SEEDS.value)
  print(study.table(report))
  path = os.path.join(workdir, 'compaction.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {path}')


if __name__ == '__main__':
  cli.run(main, required=())
