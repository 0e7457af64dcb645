"""A fixed set of tasks, gone through in a new order every epoch."""

import numpy as np

from agentrl import registry
from agentrl.dataset import jit_tasks
from agentrl.types import Attempts


@registry.register('task')
def fixed(
  n: int,
  step: int,
  *,
  group: int,
  batch: int,
  limit: int,
  seed: int,
  temperature: float,
) -> Attempts:
  """`batch / group` tasks of the set, `group` attempts at each.

  Args:
    n: size of the task set
    step: of the optimizer; the only thing that a resume must know
    batch: trajectories, a multiple of group
    limit: turns
  """
  chosen = jit_tasks.epoch_order(n, seed, step, batch // group)
  return attempts(np.repeat(chosen, group), group, limit, temperature)


def attempts(task, group: int, limit: int, temperature: float) -> Attempts:
  """Attempts at the given tasks; each run of `group` is a group."""
  b = len(task)
  return Attempts(
    task=np.asarray(task, np.int32),
    group=np.arange(b, dtype=np.int32) // group,
    arm=np.zeros(b, np.int32),
    limit=np.full(b, limit, np.int32),
    temperature=np.full(b, temperature, np.float32),
  )
