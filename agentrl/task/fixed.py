"""A fixed set of tasks, gone through in a new order every epoch."""

from collections.abc import Mapping
from typing import Any

from agentrl import registry
from agentrl.dataset import jit_tasks
from agentrl.task import base
from agentrl.types import AttemptPlan, Attempts


@registry.register('task')
def fixed(plan: AttemptPlan, memory: Mapping[str, Any], step: int) -> Attempts:
  """Draws `batch / group` tasks of the set, `group` attempts at each."""
  del memory
  order = jit_tasks.epoch_order(plan.tasks, plan.seed, step, plan.groups)
  return base.attempts_at(plan, order)
