"""State of training that all stages of a run share, and how a stage begins.

It has the roles, optimizers, signals and memories of every stage at all times,
so that a checkpoint is restored, and seeds go together, whatever stage it is
of. What a stage does not name passes through it.
"""

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from agentrl import optimizer
from agentrl.configs.config import Config
from agentrl.learner import update
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.rollout import stale
from agentrl.run import algorithm
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect
from agentrl.types import TrainState


def union(algorithms: Sequence[Algorithm]) -> Algorithm:
  """Gives the first algorithm the roles and signals of all of them.

  Raises:
    ValueError: one name is of signals with states of different sizes.
  """
  first = algorithms[0]
  modules, rules = dict(first.context.modules), dict(first.context.rules)
  signals, loaded = dict(first.bound_signals), first.context.loaded
  sizes = {name: _shapes(x.init()) for name, x in first.signals.items()}
  for other in algorithms[1:]:  # roles: see stage_checks.roles
    modules = dict(other.context.modules) | modules
    rules = dict(other.context.rules) | rules
    loaded |= other.context.loaded
    signals = dict(other.bound_signals) | signals
    for name, signal in other.signals.items():
      size = _shapes(signal.init())
      if sizes.setdefault(name, size) != size:
        raise ValueError(
          f'signal {name!r} has a state of another size in one stage than in'
          ' another; set its hyper-parameters for the whole run'
        )
  context = first.context._replace(modules=modules, rules=rules, loaded=loaded)
  return first._replace(context=context, bound_signals=signals)


def init_memory(experiments: Sequence[Experiment], state: TrainState):
  """Gives the state the empty memories of all stages.

  Raises:
    ValueError: one name is of memories of different sizes.
  """
  memory: dict[str, Any] = {}
  for s in experiments:
    new = collect.init_memory(s, state.replace(memory=())).memory or {}
    for name, x in new.items():
      if _shapes(memory.setdefault(name, x)) != _shapes(x):
        raise ValueError(
          f'memory {name!r} has another size in one stage than in another,'
          ' as batches or task sets have; give all stages the same'
          ' rollout.batch, rollout.max_turns and env.train'
        )
  return state.replace(memory=memory or ())


def init_past(
  stages: Sequence[tuple[Config, Algorithm]], state: TrainState
) -> TrainState:
  """Gives the state the earlier versions that rollouts of its stages read."""
  staleness = stages[0][0].staleness
  if staleness.order == 'latest':  # any version that is new enough will do
    return state
  of = [algorithm.reads(c, alg) for c, alg in stages]
  every = stale.Reads(
    roles=tuple(dict.fromkeys(name for x in of for name in x.roles)),
    memories=tuple(dict.fromkeys(name for x in of for name in x.memories)),
  )
  return stale.begin(state, every, staleness.bound)


def begin_rl(
  s: Experiment, state: TrainState, start: int, carried: Collection[str] = ()
) -> TrainState:
  """Returns the state as an RL stage begins.

  Roles start as the policy, as far as they have its parameters; those that
  were trained in an earlier RL stage go on. Optimizers are fresh and memories
  empty.

  Args:
    carried: the roles that go on
  """
  other = state.memory or {}
  state = update.init_roles_from_policy(s.algorithm, state, carried)
  own = {n: x.init() for n, x in s.algorithm.signals.items()}
  own = {name: x for name, x in own.items() if x is not None}
  state = collect.init_memory(s, state)
  memory = {**other, **(state.memory or {})} or ()
  return state.replace(
    step=jnp.zeros_like(state.step) + start,
    signal={**state.signal, **own},
    memory=memory,
  )


def begin_sft(s: Experiment, state: TrainState) -> TrainState:
  """Returns the state as a supervised stage begins: a fresh optimizer."""
  context = s.warm.context
  opt = jax.jit(
    lambda params: optimizer.init(
      context.rules[POLICY], params, context.modules[POLICY].specs
    )
  )(state.params[POLICY])
  return state.replace(opt={**state.opt, POLICY: opt})


def _shapes(tree):
  return jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree)
