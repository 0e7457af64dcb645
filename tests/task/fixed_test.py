"""Whose turn it is: groups of attempts at the tasks of an epoch."""

import numpy as np
import pytest

from agentrl.dataset import jit_tasks
from agentrl.task import fixed
from agentrl.types import AttemptPlan

TASKS, GROUP, BATCH = 6, 4, 12  # three tasks a step, two steps an epoch


def attempts(step, seed=3):
  plan = AttemptPlan(TASKS, GROUP, BATCH, limit=5, seed=seed, temperature=0.7)
  return fixed.fixed(plan, {}, step)


@pytest.mark.parametrize('step', range(4))
def test_a_group_attempts_one_task_of_the_epochs_order(step):
  a = attempts(step)
  order = jit_tasks.epoch_order(TASKS, 3, step, BATCH // GROUP)
  for i, task in enumerate(order):
    here = a.group == i
    assert here.sum() == GROUP
    assert set(a.task[here]) == {task}
  assert a.group.tolist() == sorted(a.group.tolist())
  np.testing.assert_array_equal(a.limit, 5)
  np.testing.assert_array_equal(a.temperature, np.float32(0.7))
  np.testing.assert_array_equal(a.arm, 0)


def test_every_task_comes_once_an_epoch_and_seeds_differ():
  said = [*attempts(0).task[::GROUP], *attempts(1).task[::GROUP]]
  assert sorted(said) == list(range(TASKS))
  orders = {
    tuple(x for step in (0, 1) for x in attempts(step, seed).task)
    for seed in range(8)
  }
  assert len(orders) > 4
