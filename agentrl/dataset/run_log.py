"""The trajectory log of a run, as stored trajectories."""

import os
from collections.abc import Iterator

import numpy as np

from agentrl.dataset.trajectory import StoredTrajectory, from_log
from agentrl.log import shards, trajectories
from agentrl.ops import counting


def read(
  run: str | os.PathLike[str],
  *,
  phase: str = 'rl',
  steps: tuple[int, int] | None = None,
) -> Iterator[StoredTrajectory]:
  """Returns the trajectories that a run logged, in their order, one at a time.

  Candidates that were not played are left out: they are no attempts at a task.

  Args:
    run: its folder, the --workdir
    phase: 'sft', 'rl', 'eval' (of held-out tasks), or 'all'
    steps: (first, last) of those that sampled them; None: all
  Raises:
    ValueError: there is no log, no such phase, or a line is damaged.
  """
  if phase not in (*shards.PHASES, 'all'):
    raise ValueError(
      f"phase {phase!r} is unknown; use one of {list(shards.PHASES)}, or 'all'"
    )
  log = trajectories.Log(run)
  chosen = np.arange(len(log))
  if phase != 'all':
    chosen = chosen[log.heads['phase'] == shards.PHASES.index(phase)]
  if steps is not None:
    at = log.heads['step'][chosen]
    chosen = chosen[(at >= steps[0]) & (at <= steps[1])]
  for i in chosen.tolist():
    try:
      line = log[i]
      stored = from_log(line)
      if not line.get('ids', {}).get(counting.UNPLAYED):
        yield stored
    except ValueError as error:
      raise ValueError(f'{run}, trajectory {i} of its log: {error}') from error
