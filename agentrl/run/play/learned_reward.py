"""Reward of trajectories by what a run has learned of it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry, schedule
from agentrl.learner import algorithm, update
from agentrl.rollout.record import Record
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect
from agentrl.types import Array, Attempts, TrainState


def scorer(
  s: Experiment, state: TrainState
) -> Callable[[Attempts, Record], np.ndarray] | None:
  """Makes what scores attempts: the sum of their turns' learned rewards, [B].

  Learned rewards are the fields that signals of the method declare as their
  `step`: of a reward model, of a process reward model. None: it has none.

  Args:
    state: of the method, whose roles score
  """
  alg = s.algorithm
  each = [registry.get('signal', name).step for name in alg.spec.signal]
  steps = [name for name in each if name]
  if not steps:
    return None

  @jax.jit
  def score(state: TrainState, attempts: Attempts, record: Record) -> Array:
    now = schedule.resolve(alg, state.step - alg.start)
    now = algorithm.bind_shared_params(now, state.params)
    batch = collect.score(
      now.spec, collect.arrays(s, record, attempts, state.step)
    )
    signals, _ = update.old_policy_outputs(now, state, batch)
    for signal in now.signals.values():
      signals |= signal.score(state, batch, signals)[0]
    own = batch.turns.valid
    return sum(
      (jnp.sum(jnp.where(own, signals[name], 0), axis=1) for name in steps),
      jnp.zeros(own.shape[0]),
    )

  return lambda attempts, record: np.asarray(
    score(state, attempts, record), np.float64
  )
