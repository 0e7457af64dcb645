"""Statistics of every task: how often it was attempted, and what came of it.

What a task pool (task/pool.py) chooses by. All attempts count that were made
for a batch and that count at all (`counting`), also those that were thrown
away on the way; what a memory replays is no attempt.
"""

from typing import Annotated

import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry
from agentrl.memory.base import Memory
from agentrl.types import Array, Batch, Credit, Metrics

Rate = Annotated[float, domain.Real(0, 1, above=True)]


class TaskStatistics(struct.PyTreeNode):
  """Of n tasks. A visit is a step that attempted the task; s of g succeeded."""

  attempts: Array  # [n] i32
  solved: Array  # [n] i32  how many of them
  tried: Array  # [n] f32  attempts, older ones discounted
  won: Array  # [n] f32  successes, older ones discounted
  fast: Array  # [n] f32  moving average of s / g; 0 before the first visit
  slow: Array  # [n] f32  a slower one
  unsolved: Array  # [n] i32  visits without a success since the last success
  last: Array  # [n] i32  step of the newest visit; -1: none


@registry.register('memory', gives=('memory:task_statistics',))
def task_statistics(
  *, discount: Rate = 0.95, fast: Rate = 0.5, slow: Rate = 0.1
) -> Memory:
  """Counts for every task after each step, g attempts and s successes in it:

    tried ← discount · tried + g,    won ← discount · won + s
    average ← average + rate (s / g − average)   where g > 0; s / g at first

  Args:
    discount: of older attempts with every step, for the policy has changed
    fast, slow: rates of the two averages
  """

  def write(state: TaskStatistics, batch: Batch, credit: Credit, step):
    return update(state, batch.attempted, step, discount, fast, slow)

  return Memory(
    init=lambda batch, tasks: empty(batch, tasks), write=write, measure=measure
  )


def empty(batch: Batch, tasks: int) -> TaskStatistics:
  """Begins with no attempts.

  Raises ValueError for batches that do not say what was attempted.
  """
  if not batch.attempted:
    raise ValueError(
      "c.memory: 'task_statistics' needs batches that say what was attempted;"
      ' fill Batch.attempted, or leave it out'
    )
  counts = {
    name: jnp.zeros(tasks, jnp.int32)
    for name in ('attempts', 'solved', 'unsolved')
  }
  real = {name: jnp.zeros(tasks) for name in ('tried', 'won', 'fast', 'slow')}
  return TaskStatistics(**counts, **real, last=jnp.full(tasks, -1, jnp.int32))


def update(
  state: TaskStatistics,
  attempted: dict[str, Array],
  step,
  discount: float,
  fast: float,
  slow: float,
) -> TaskStatistics:
  """Updates the statistics by a step's attempts (types.Batch.attempted)."""

  def f(x: TaskStatistics, attempted, step):
    counts = attempted['counts'].astype(jnp.int32)
    success = counts * (attempted['outcome'] > 0.5)
    zero = jnp.zeros_like(x.attempts)
    g = zero.at[attempted['task']].add(counts)
    s = zero.at[attempted['task']].add(success)
    visited = g > 0
    rate = s / jnp.maximum(g, 1)

    def average(old, weight):
      new = jnp.where(x.last < 0, rate, old + weight * (rate - old))
      return jnp.where(visited, new, old).astype(old.dtype)

    unsolved = jnp.where(s > 0, 0, x.unsolved + visited)
    return TaskStatistics(
      attempts=x.attempts + g,
      solved=x.solved + s,
      tried=discount * x.tried + g,
      won=discount * x.won + s,
      fast=average(x.fast, fast),
      slow=average(x.slow, slow),
      unsolved=unsolved.astype(jnp.int32),
      last=jnp.where(visited, step, x.last).astype(jnp.int32),
    )

  return mesh.auto(f, None)(state, attempted, step)


def measure(x: TaskStatistics) -> Metrics:
  """Measures what was attempted so far, and how often."""
  one, n = jnp.ones(()), jnp.float32(x.attempts.size)
  seen = x.attempts > 0
  count = jnp.sum(seen).astype(jnp.float32)
  return {
    'tasks/total': (n, one),
    'tasks/attempted': (count, one),
    'tasks/attempts': (jnp.sum(x.attempts).astype(jnp.float32), count),
    'tasks/attempts_max': (jnp.max(x.attempts).astype(jnp.float32), one),
    'tasks/never_solved': (jnp.sum(seen & (x.solved == 0)), count),
    'tasks/always_solved': (jnp.sum(seen & (x.solved == x.attempts)), count),
  }
