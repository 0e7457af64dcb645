"""Attempts that go on where an earlier iteration has left them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl import registry
from agentrl.dataset import jit_tasks
from agentrl.domain import Count
from agentrl.memory import unfinished
from agentrl.task import base
from agentrl.types import AttemptPlan, Attempts, Earlier


@registry.register(
  'task',
  needs=('memory:unfinished', 'column:unfinished'),
  gives=('older_tokens',),
)
def partial(
  plan: AttemptPlan,
  memory: Mapping[str, Any],
  step: int,
  *,
  segment: Count = 4,
  segments: Count = 4,
) -> Attempts:
  """Goes on with groups under way, then begins new tasks in `fixed`'s order.

    τ = τ₁ τ₂ …    at most L = segment turns of an attempt in an iteration

  Partial rollouts (AgentMath, arXiv 2512.20745; Kimi k1.5, arXiv 2501.12599):
  an iteration does not wait for its longest trajectory. Members that have
  ended wait for their group (collect/partial.py). After `segments` iterations
  an attempt ends, truncated.

  Args:
    segment: L, turns of an attempt in an iteration; rollout.max_turns or more:
      none is left unfinished
    segments: most iterations that an attempt is part of
  """
  x = unfinished.waiting(memory['unfinished'], step)
  group = plan.group
  count = plan.groups - x.size // group
  new = x.begun // group + np.arange(count)
  # Of its queue, which has every Q-th batch of those that `fixed` makes.
  batch = new // plan.groups * x.queues + step % x.queues
  position = batch * plan.groups + new % plan.groups
  tasks = jit_tasks.epoch_positions(plan.tasks, plan.seed, position)
  earlier = x.batch.ids['task'][: x.size : group]
  tasks = np.concatenate([earlier, tasks]).astype(np.int32)
  attempts = base.attempts_at(plan, tasks)
  old = np.arange(plan.batch) < x.size
  ended = old & (x.batch.ids['unfinished'] == 0)
  most = min(segment * segments, plan.limit)
  limit = np.minimum(np.sum(x.batch.turns.valid, axis=1) + segment, most)
  limit = np.where(ended, 0, limit).astype(np.int32)
  goes_on: Any = ~ended & (limit < most)
  return attempts.replace(limit=limit, earlier=Earlier(x.batch, x.key, goes_on))
