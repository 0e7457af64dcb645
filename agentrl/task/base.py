"""Attempts at tasks, as components of the slot 'task' make them.

A component is a function

  (plan, memory, step, *, hp) -> Attempts        host arrays

of what all steps have in common (types.AttemptPlan), the states of the
memories that it needs, by name, and the step of RL. What it draws depends on
these alone, so that a run that was killed goes on as if nothing had happened.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from agentrl.types import Array, AttemptPlan, Attempts


def make_attempts(task, group: int, limit: int, temperature: float) -> Attempts:
  """Makes attempts at the given tasks [B]; each run of `group` is a group."""
  b = len(task)
  on_host: dict[str, Any] = {
    'task': np.asarray(task, np.int32),
    'group': np.arange(b, dtype=np.int32) // group,
    'arm': np.zeros(b, np.int32),
    'limit': np.full(b, limit, np.int32),
    'temperature': np.full(b, temperature, np.float32),
  }
  return Attempts(**on_host)


def attempts_at(plan: AttemptPlan, tasks) -> Attempts:
  """Makes a group of attempts at each of the tasks [B / G], in their order."""
  each = np.repeat(tasks, plan.group)
  return make_attempts(each, plan.group, plan.limit, plan.temperature)


def starting(attempts: Attempts) -> Array:
  """Lists trajectories in the order in which they start: [B + 1] i32.

  B in place of the others: without a turn they are not attempted.
  """
  b = attempts.task.shape[0]
  live = attempts.limit > 0
  order = jnp.argsort(~live, stable=True).astype(jnp.int32)
  order = jnp.where(jnp.arange(b) < jnp.sum(live), order, b)
  return jnp.append(order, jnp.int32(b))
