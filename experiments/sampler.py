"""Collects batches for a run whose learner is another job.

  python -m experiments.sampler --workdir=runs/ahead

The run is one with --config.staleness.jobs (docs/STALENESS.md). Samplers share
its folder with the learner and may join, leave and die at any time: each batch
is collected once. One ends when the run does.
"""

from agentrl import cli
from agentrl.domain import COUNT0
from agentrl.runtime import storage

_WORKDIR = cli.workdir_flag('Folder of the run')
_PATIENCE = cli.flag(
  'patience', 600, COUNT0, 'Seconds to wait for a learner that is away'
)


def main() -> None:
  from agentrl.run import sampler_job  # takes seconds
  from agentrl.runtime.preemption import Interrupt

  with Interrupt() as stopping:
    count = sampler_job.serve(
      storage.absolute(_WORKDIR.value),
      stopping=stopping,
      patience=_PATIENCE.value,
    )
  print(f'{count} batches were collected here')


if __name__ == '__main__':
  cli.run(main, required=('workdir',))
