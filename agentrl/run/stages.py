"""Builds the stages of a run (SFT warm start, RL) and its evaluation hook."""

import dataclasses
import functools
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import evaluate, loop, registry
from agentrl.dataset import host_tasks, jit_tasks
from agentrl.dataset.trajectory_store import TrajectoryStore
from agentrl.learner import algorithm as algorithm_lib
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.log.sample import TrajectoryLogger
from agentrl.rollout.keys import Stream, step_key, stream_key
from agentrl.run import (
  build,
  collect,
  describe,
  host_env,
  placement,
  prefixes,
  sampler,
  stored_sft,
  trajectory_log,
)
from agentrl.run.sampler import EnvSampler
from agentrl.run.seed_axis import SeedAxis
from agentrl.types import Batch, TrainState


class Stage(loop.Sampler, Protocol):
  """Steps [start, end) of a run, which share one state and one counter."""

  name: str
  start: int
  end: int
  algorithm: Algorithm

  def begin(self, state: TrainState) -> TrainState:
    """Changes the state before the first step of the stage."""

  def update(self, alg: Algorithm, state: TrainState, batch: Batch):
    """learner.update; of all seeds where there are several."""


@dataclasses.dataclass(frozen=True)
class SFTStage:
  """Supervised warm start on demonstrations, in epochs of their own."""

  experiment: build.Experiment
  start: int
  end: int
  sampler: EnvSampler
  name: str = 'sft'
  update = staticmethod(update_lib.update)

  @property
  def algorithm(self) -> Algorithm:
    s, warm = self.experiment, self.experiment.warm
    return warm._replace(sample=trajectory_log.sampler_of(s, warm, 1))

  def begin(self, state):
    return state

  def task(self, state, step: int):
    c, tasks = self.experiment.config, tasks_with_demos(self.experiment)
    at, batch = step - self.start, c.sft.batch
    order = jit_tasks.epoch_order(len(tasks), c.seed, at, batch)
    return self.sampler.demo_batch(tasks[order])

  def collect(self, state, attempts, step):
    self.sampler.update_service_params(state.params)
    key = step_key(state.key, Stream.SFT, step)
    return self.sampler.demonstrate(attempts, key)

  def observe(self, batch):
    return {}


@dataclasses.dataclass(frozen=True)
class StoredSFTStage(SFTStage):
  """The same on trajectories of a store."""

  store: TrajectoryStore = dataclasses.field(kw_only=True)

  def task(self, state, step: int):
    c = self.experiment.config
    at, batch = step - self.start, c.sft.batch
    order = jit_tasks.epoch_order(len(self.store), c.seed, at, batch)
    return stored_sft.arrays(self.experiment, self.store.take(order))

  def collect(self, state, attempts, step):
    return self._batch(*placement.replicated(attempts))

  @functools.cached_property
  def _batch(self):
    return placement.sharded(
      functools.partial(stored_sft.batch, self.experiment)
    )


@dataclasses.dataclass(frozen=True)
class RLStage:
  """Reinforcement learning on the training tasks."""

  experiment: build.Experiment
  start: int
  end: int
  sampler: EnvSampler
  name: str = 'rl'
  update = staticmethod(update_lib.update)

  @property
  def algorithm(self) -> Algorithm:
    s, alg = self.experiment, self.experiment.algorithm
    pick = trajectory_log.sampler_of(s, alg, s.config.rollout.group_size)
    return alg._replace(start=self.start, sample=pick)

  def begin(self, state):
    alg = self.experiment.algorithm
    state = update_lib.init_roles_from_policy(alg, state)
    state = collect.init_memory(self.experiment, state)
    return state.replace(step=jnp.zeros_like(state.step) + self.start)

  def task(self, state, step: int):
    spec = self.experiment.algorithm.spec
    choose = registry.bind('task', spec.task, spec.values('task', spec.task))
    memory = jax.device_get({name: state.memory[name] for name in self._pools})
    at = step - self.start
    attempts = choose(collect.plan(self.experiment), memory, at)
    if spec.prefix == 'none':
      return attempts
    return self._demonstrations.prefixed(attempts, at)

  @functools.cached_property
  def _demonstrations(self) -> prefixes.Demonstrations:
    return prefixes.Demonstrations(self.experiment)

  @functools.cached_property
  def _pools(self) -> list[str]:
    """The memories that what is attempted depends on."""
    spec = self.experiment.algorithm.spec
    needs = registry.needs(spec, 'task', 'task', spec.task)
    return [need.partition(':')[2] for need in needs if 'memory:' in need]

  def collect(self, state, attempts, step):
    self.sampler.update_service_params(state.params)
    key = step_key(state.key, Stream.ROLLOUT, step)
    context = self.experiment.algorithm.context
    policy = algorithm_lib.full_params(context, state.params)
    return self.sampler.collect(policy, attempts, key, jnp.int32(step))

  def observe(self, batch):
    return self.sampler.observe(batch)


def make_stages(
  s: build.Experiment, names, playing: EnvSampler | None = None
) -> list[Stage]:
  """Supervised warm start, then RL, on one step counter."""
  c, out = s.config, []
  playing = sampler.JitSampler(s) if playing is None else playing
  warm = c.sft.steps if 'sft' in names and not c.init else 0
  steps = c.steps if 'rl' in names else 0
  if not warm + steps:
    raise ValueError(
      f'there is nothing to do: steps={c.steps}, sft.steps={c.sft.steps},'
      f' init={c.init!r} (which replaces the warm start); raise one of them'
    )
  store = stored_sft.open_store(s) if warm else None
  if warm and store is None and not tasks_with_demos(s).size:
    text = f'No task of {describe.task_name(s)} comes with a demonstration.'
    if not steps:
      raise ValueError(text)
    way = '--config.init=RUN can take its place.'
    logging.warning('%s The warm start is left out; %s', text, way)
    warm = 0
  if store is not None:
    out.append(StoredSFTStage(s, 0, warm, playing, store=store))
  elif warm:
    out.append(SFTStage(s, 0, warm, playing))
  if steps:
    out.append(RLStage(s, warm, warm + steps, playing))
  return out


def check_demos(s: build.Experiment, names) -> None:
  """Raises ValueError for demonstrations that a stage cannot show."""
  c = s.config
  if 'rl' in names and c.steps:
    prefixes.check(s)
  if 'sft' not in names or not c.sft.steps or c.init:
    return
  if stored_sft.open_store(s) is None and s.on_host:
    host_env.messages(c, s.tokenizer, s.train.demonstration)


def tasks_with_demos(s: build.Experiment) -> np.ndarray:
  """Indices of the training tasks that have a demonstration."""
  if isinstance(s.train, host_tasks.HostTaskSet):
    return np.flatnonzero([bool(x) for x in s.train.demonstration])
  return np.flatnonzero(np.any(s.train.actions >= 0, axis=1))


def eval_hook(
  axis: SeedAxis,
  s: build.Experiment,
  log: TrajectoryLogger | None,
  playing: EnvSampler,
):
  """Returns (state, step) -> metrics of the held-out tasks, for every seed."""
  c = s.config
  tasks = len(s.train) + np.arange(len(s.test))
  keep = trajectory_log.of_record(s)

  @axis.jit
  def fold(key, i):
    return jax.random.fold_in(stream_key(key, Stream.EVAL), i)

  def run(state, step):
    playing.update_service_params(state.params)
    policy = algorithm_lib.full_params(s.algorithm.context, state.params)
    ends, record, attempts = evaluate.play_rounds(
      lambda attempts, i: playing.play(
        policy, attempts, fold(state.key, axis.same(np.int32(i)))
      ),
      tasks,
      episodes=c.eval.episodes,
      batch=c.rollout.batch,
      limit=c.rollout.max_turns,
      temperature=c.eval.temperature,
    )
    scalars, some = [], []
    for i in range(axis.count):
      mine, last = axis.seed((ends, record), i)
      scalars.append(evaluate.measure(mine, c.eval.episodes, len(tasks)))
      if c.log.eval_trajectories:
        first = trajectory_log.first(c.log.eval_trajectories, last, attempts)
        some.append(keep(*first, jnp.int32(step)))
    if some:
      log.write(step, 'eval', axis.stack(some))
    return axis.gather(scalars)

  return run


def due(c, stages):
  """Returns steps done -> whether to evaluate then.

  At the end of every stage, before RL, and every so many steps of the last.
  """
  ends = {stage.end for stage in stages} | {stages[0].start}
  if stages[0].name == 'sft':
    ends.discard(stages[0].start)

  def due_at(done: int) -> bool:
    every, since = c.eval.every, done - stages[-1].start
    return done in ends or bool(every and since > 0 and since % every == 0)

  return due_at
