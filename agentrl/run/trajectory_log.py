"""Samples trajectories of updates and evaluations, and logs them."""

from collections.abc import Callable, Sequence

import jax

from agentrl import mesh
from agentrl.judge.panel import Judgement
from agentrl.learner.algorithm import Algorithm
from agentrl.learner.update import Aux
from agentrl.log import encode, sample, trajectories
from agentrl.rollout import record as record_lib
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect
from agentrl.types import Attempts


def write(
  s: Experiment,
  writer: trajectories.TrajectoryWriter,
  step,
  phase,
  what,
  verdicts: Callable[[str], Sequence[Judgement]] = lambda key: (),
) -> None:
  for trajectory in encode.trajectories(
    what, s.tokenizer, step=step, phase=phase, verdicts=verdicts
  ):
    writer.write(trajectory)


def sampler_of(s: Experiment, alg: Algorithm, group: int):
  """Returns Algorithm.sample: picks the trajectories of an update to log."""
  groups, has_credit = s.config.log.groups, bool(alg.spec.advantage)

  def pick(aux: Aux, key):
    b = aux.batch.outcome.shape[0]
    return sample.sample(
      aux.batch,
      aux.signals,
      aux.credit if has_credit else None,
      key,
      groups=groups,
      size=b if groups < 0 else groups * group,
    )

  return pick if groups else lambda aux, key: None


def of_record(s: Experiment):
  """Returns (record, attempts, version) -> all of them, compiled once."""

  def f(record, attempts, version):
    batch = collect.arrays(s, record, attempts, version)
    batch = collect.score(s.algorithm.spec, batch)
    n = attempts.task.shape[0]
    return sample.sample(batch, {}, None, jax.random.key(0), groups=-1, size=n)

  return jax.jit(lambda *args: mesh.auto(f, None)(*args))


def first(n: int, record: record_lib.Record, attempts: Attempts):
  """Takes the first n trajectories of what was played, host arrays."""
  return jax.tree.map(lambda x: x[:n], (record, attempts))
