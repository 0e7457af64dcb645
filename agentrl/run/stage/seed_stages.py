"""Stages and evaluations of several seeds as one program."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from agentrl.rollout import stale
from agentrl.run.experiment import Experiment
from agentrl.run.play.jit_sampler import JitSampler
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage.base import Stage


def batch_stages(axis: SeedAxis, stages: Sequence[Stage]) -> Stage:
  """Returns the same stage of each seed as one.

  Its arrays are [S, ...], and its batches come with their step.
  """
  one = stages[0]
  if not axis.mesh:
    return one
  at_start = axis.jit(
    lambda state: axis.where_at_step(one.start, one.begin(state), state)
  )
  collect_all = axis.jit(lambda state, tasks: one.collect(state, *tasks))

  def open_all(step: int) -> None:
    for stage in stages:
      stage.open(step)

  def task(state, step: int):
    old = stale.oldest(state)

    def of_seed(i: int):
      memory = axis.seed(old.memory, i)
      return stages[i].task(old.replace(memory=memory), step)

    return axis.stack(
      [(of_seed(i), np.int32(step)) for i in range(len(stages))]
    )

  def collect(state, tasks, step: int):
    batch, observed = collect_all(state, tasks)
    return (batch, tasks[1]), observed

  def update(alg, state, batch):
    def of_seed(state, batch):
      batch, step = batch
      new, metrics, aux = one.update(alg, state, batch)
      return axis.where_at_step(step, new, state), metrics, aux

    return axis.map(of_seed)(state, batch)

  return dataclasses.replace(
    one,
    sampler=SeedSampler(axis, one.experiment),
    task=task,
    collect=collect,
    open=open_all,
    begin=at_start,
    update=update,
  )


class SeedSampler(JitSampler):
  """Evaluates the policies [S, ...] of all seeds on the same tasks."""

  def __init__(self, axis: SeedAxis, s: Experiment):
    super().__init__(s)
    self._axis = axis
    self._play_all = jax.jit(axis.map(super().play))

  def play(self, policy, attempts, key):
    return self._play_all(policy, self._axis.same(attempts), key)
