"""Stages and evaluations of several seeds as one program."""

from collections.abc import Sequence

import jax
import numpy as np

from agentrl.run.play.base import EnvSampler, EvalPlayer
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage.base import Stage


def batch_stages(axis: SeedAxis, stages: Sequence[Stage]) -> Stage:
  """The same stage of each seed as one."""
  return SeedStage(axis, stages) if axis.mesh else stages[0]


class SeedStage:
  """A stage of arrays [S, ...]; its batches come with their step."""

  def __init__(self, axis: SeedAxis, stages: Sequence[Stage]):
    one = stages[0]
    self.name, self.start, self.end = one.name, one.start, one.end
    self.kind, self.algorithm = one.kind, one.algorithm
    self.experiment = one.experiment
    self.sampler = SeedSampler(axis, one.sampler)
    self._axis, self._stages = axis, stages
    self.begin = axis.jit(
      lambda state: axis.where_at_step(one.start, one.begin(state), state)
    )
    self.observe = axis.jit(lambda batch: one.observe(batch[0]))
    self._collect = axis.jit(
      lambda state, tasks: (one.collect(state, *tasks), tasks[1])
    )

  def open(self, step: int) -> None:
    for stage in self._stages:
      stage.open(step)

  def task(self, state, step: int):
    def of_seed(i: int):
      memory = self._axis.seed(state.memory, i)
      return self._stages[i].task(state.replace(memory=memory), step)

    count = range(len(self._stages))
    return self._axis.stack([(of_seed(i), np.int32(step)) for i in count])

  def collect(self, state, attempts, step):
    return self._collect(state, attempts)

  def update(self, alg, state, batch):
    def one(state, batch):
      batch, step = batch
      new, metrics, aux = self._stages[0].update(alg, state, batch)
      return self._axis.where_at_step(step, new, state), metrics, aux

    return self._axis.map(one)(state, batch)


class SeedSampler(EvalPlayer):
  """Evaluates the policies [S, ...] of all seeds on the same tasks."""

  def __init__(self, axis: SeedAxis, sampler: EnvSampler):
    self._axis, self._sampler = axis, sampler
    self._play = jax.jit(axis.map(sampler.play))

  def play(self, policy, attempts, key):
    return self._play(policy, self._axis.same(attempts), key)

  def eval_counts(self) -> dict[str, float]:
    return self._sampler.eval_counts()

  def unplayed(self) -> str:
    return self._sampler.unplayed()

  def update_service_params(self, params) -> None:
    """Environments inside jit ask no service."""
