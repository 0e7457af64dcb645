"""Sources of a stage: the trajectories that c.mix names.

A supervised stage is trained on a mixture of them, c.sft.mix; attempts of an
RL stage begin like those of one, c.prefix_source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from agentrl import registry
from agentrl.configs import base
from agentrl.dataset import (
  host_tasks,
  mixture,
  run_log,
  trajectory,
  trajectory_store,
)
from agentrl.dataset.mixture import TrajectorySource
from agentrl.dataset.trajectory import StoredTrajectory
from agentrl.env import goals
from agentrl.env.jit import base as jit_env_base
from agentrl.log import encode, sample
from agentrl.rollout import jit_sizes
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.keys import Stream, step_key
from agentrl.run.check import fields, stage_checks
from agentrl.run.experiment import Experiment
from agentrl.run.play import demonstrations as expert
from agentrl.run.play.base import EnvSampler, Script
from agentrl.run.stage import stored_sft
from agentrl.runtime import distributed, storage
from agentrl.schedule import Schedule

# What stages are built of, by name of the stage.
Built = Mapping[str, tuple[Experiment, EnvSampler]]
# Raises ValueError for (experiment, heads, name) that do not fit together.
Check = Callable[[Experiment, np.ndarray, str], None]


def opener(
  s: Experiment,
  name: str,
  stage: str,
  playing: EnvSampler,
  earlier: Sequence[Any],
  workdir: str,
  built: Built,
  check: Check = stored_sft.check,
) -> Callable[[bool], TrajectorySource]:
  """Returns whether the stage begins -> the source; stores are read at once.

  Args:
    s, stage: what reads it, and its name
    earlier: stages before it
    workdir: folder of the run, whose log 'found' reads
    built: what all stages are built of
    check: whether the trajectories fit
  Raises:
    ValueError: a store is missing, empty or does not fit.
  """
  source = s.config.mix[name]
  if source.kind == 'store':
    store = stored(s, name, check)
    return lambda begins: store
  if source.kind == 'demonstrations':
    of, player = built[source.of] if source.of else (s, playing)
    world = of.config.env.name
    if not tasks_with_demos(of).size:
      raise ValueError(
        f'stage {stage}: no task of env.name={world!r} comes with a'
        f' demonstration, which the source mix.{name} is made of; choose'
        ' another source'
      )
    return lambda begins: demonstrations(s, name, of, player, check)
  read = stage_checks.read_by(earlier, source.last)
  ranges = [(one.start + 1, one.end) for one in read]

  def open_found(begins: bool) -> TrajectorySource:
    return found_by_run(
      s, name, workdir, ranges, stage=stage, begins=begins, check=check
    )

  return open_found


def weights(s: Experiment, steps: int) -> np.ndarray:
  """Returns the weights of sources at each step of a stage: [T, S] f64."""
  c = s.config
  scheduled = {k: Schedule(*v) for k, v in fields.flat(c.schedule).items()}

  def of(name: str) -> np.ndarray:
    rule = scheduled.get(f'mix.{name}.weight')
    if rule is None:
      return np.full(steps, c.mix[name].weight, np.float64)
    rule = rule._replace(steps=rule.steps or steps)
    return np.asarray(jax.vmap(rule.at)(np.arange(steps)), np.float64)

  return np.stack([of(name) for name in c.sft.mix], axis=1)


def tasks_with_demos(s: Experiment) -> np.ndarray:
  """Returns the indices of training tasks that have a demonstration."""
  if isinstance(s.train, host_tasks.HostTaskSet):
    return np.flatnonzero([bool(x) for x in s.train.demonstration])
  env = s.world.env if isinstance(s.world, jit_sizes.TokenizedEnv) else None
  if isinstance(env, jit_env_base.Demonstrates):
    return np.arange(len(s.train))
  return np.flatnonzero(np.any(s.train.actions >= 0, axis=1))


def stored(
  s: Experiment, name: str, check: Check = stored_sft.check
) -> TrajectorySource:
  """Opens the source of a trajectory store, edited in memory.

  Raises:
    ValueError: there is no store, it is damaged, or does not fit the run.
  """
  source = s.config.mix[name]
  store = trajectory_store.open_store(s.config.data, source.store)
  if not source.edits:
    return checked(s, name, store, check)
  return checked(s, name, mixture.Listed(edited(s, name, store)), check)


def demonstrations(
  s: Experiment,
  name: str,
  of: Experiment,
  playing: EnvSampler,
  check: Check = stored_sft.check,
) -> TrajectorySource:
  """Plays the demonstrations of training tasks once, as a source.

  Their tokens are those that a supervised step on them has; with errors they
  are an imperfect expert's, whose outcomes tell what came of them.

  Args:
    of: whose tasks they are; the sampler plays them
  """
  rate = s.config.mix[name].error_rate
  played = _demonstrated(of, tasks_with_demos(of), playing, rate)
  return checked(s, name, mixture.Listed(edited(s, name, list(played))), check)


def found_by_run(
  s: Experiment,
  name: str,
  workdir: str,
  ranges: Sequence[tuple[int, int]],
  *,
  stage: str,
  begins: bool,
  check: Check = stored_sft.check,
) -> TrajectorySource:
  """Stores what RL stages of this run have logged, edited, as a source.

  A run that goes on in the middle of the stage reads the store that was made
  when the stage began. One that comes to its beginning again, because it was
  resumed before it, makes the store anew where the log differs; the old one is
  kept under another name.

  Args:
    ranges: (first, last) steps of the stages that are read
    begins: the stage begins, it does not go on
  Raises:
    ValueError: nothing is left after the edits, or it does not fit the run.
  """
  title = f'{stage}.{name}'
  if distributed.first():
    place = trajectory_store.location(workdir, title)
    there = place.is_dir()
    if begins or not there:
      xs = edited(s, name, list(_logged(workdir, ranges)))
      _refuse_empty(s, name, len(xs))
      if there and not _same(trajectory_store.open_store(workdir, title), xs):
        storage.set_aside(place.parent, 'is of an earlier course of this run')
        there = False
      if not there:
        trajectory_store.build(xs, workdir, title)
        logging.info('stage %s: %d trajectories in %s', stage, len(xs), place)
  distributed.allgather_objects(lambda: None)
  return checked(s, name, trajectory_store.open_store(workdir, title), check)


def edited(
  s: Experiment, name: str, xs: Sequence[StoredTrajectory]
) -> list[StoredTrajectory]:
  """Returns the trajectories that count, after the edits of the source."""
  spec, out = base.wiring(s.config), mixture.counted(xs)
  for edit in spec.mix[name]:
    values = spec.values(name, edit)
    more: dict[str, Any] = {}
    needs = registry.get('edit', edit).needs
    if 'tokenizer' in needs:
      more['words'] = s.tokenizer
    if goals.STATED in needs and isinstance(s.world, HostEnvBundle):
      more['family'] = s.world.family
    out = registry.bind('edit', edit, values, f'c.mix.{name}.edits')(
      out, **more
    )
  return out


def checked(
  s: Experiment, name: str, source: TrajectorySource, check: Check
) -> TrajectorySource:
  """Returns the source; raises ValueError if it is empty or does not fit."""
  _refuse_empty(s, name, len(source.heads))
  check(s, source.heads, f'the source mix.{name}')
  return source


def _refuse_empty(s: Experiment, name: str, count: int) -> None:
  if count:
    return
  source = s.config.mix[name]
  ways = {
    'demonstrations': 'choose an environment whose tasks have demonstrations',
    'store': f'store {source.store!r} has none for it',
    'found': 'the stages that it reads found none: give them more steps, set'
    ' their log.groups to -1, or begin with a better policy',
  }
  raise ValueError(
    f'the source mix.{name} holds no trajectory after its edits'
    f' {tuple(source.edits)}: {ways[source.kind]}; or take an edit out'
  )


def _logged(
  workdir: str, ranges: Sequence[tuple[int, int]]
) -> Iterator[StoredTrajectory]:
  for steps in ranges:
    yield from run_log.read(workdir, phase='rl', steps=steps)


def _same(store, xs: Sequence[StoredTrajectory]) -> bool:
  return len(store) == len(xs) and all(
    a.id == b.id for i, b in enumerate(xs) for a in store.take(np.array([i]))
  )


def _demonstrated(
  s: Experiment, tasks: np.ndarray, playing: EnvSampler, error_rate: float
) -> Iterator[StoredTrajectory]:
  """Plays demonstrations batch by batch and reads them off the rows."""
  size, key = s.config.sft.batch, jax.random.key(s.config.seed)
  scripts: list[Script] = []
  if error_rate:
    seed = s.config.seed
    scripts = expert.with_errors(expert.scripts(s), error_rate, seed)
  for i in range(0, len(tasks), size):
    chosen = tasks[(i + np.arange(size)) % len(tasks)]
    of_batch = step_key(key, Stream.SFT, i)
    if scripts:
      demos = playing.demos(chosen, [scripts[t] for t in chosen])
    else:
      demos = playing.demos(chosen)
    batch = playing.replay(demos, of_batch)
    picked = sample.sample(batch, {}, None, key, groups=-1, size=size)
    lines = encode.trajectories(
      jax.device_get(picked), s.tokenizer, step=0, phase='sft'
    )
    for line in [*lines][: len(tasks) - i]:
      yield trajectory.from_log(line)._replace(step=-1)
