"""Whole runs that differ in their seed, in step with each other.

A run that is ahead of the others, after a restart, waits until they have come
to its step; so a folder may have been begun, or cut off, in any way.
"""

import contextlib
import functools
import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from agentrl import checkpoint, evaluate, loop, mesh
from agentrl.learner import algorithm
from agentrl.learner import update as update_lib
from agentrl.log import trajectories
from agentrl.log.sample import Keeper, Kept
from agentrl.rollout.keys import Stream, stream_key
from agentrl.run import (
  build,
  collect,
  runner,
  seed_axis,
  trajectory_log,
  validate,
)
from agentrl.run import stages as stages_lib
from agentrl.run import workdir as workdir_lib
from agentrl.types import TrainState

FREE = ('seed', 'init')  # the fields of a config that may differ


def run(configs: Sequence[ConfigDict], workdirs: Sequence[str]) -> list[str]:
  """Runs each config in its workdir, from wherever it stands.

  Returns: their summaries
  Raises ValueError for configs that cannot go together.
  """
  check(configs)
  validate.log(configs[0])
  for c, workdir in zip(configs, workdirs, strict=True):
    workdir_lib.same_config(c, workdir)
  setups = alike(configs)
  for c in configs:
    if c.init:
      workdir_lib.same_model(c)
  with contextlib.ExitStack() as stack:
    locks = [stack.enter_context(runner.locked(w)) for w in workdirs]
    for c, workdir in zip(configs, workdirs, strict=True):
      workdir_lib.same_config(c, workdir)  # of who held the lock before
    return _run(setups, workdirs, locks)


def check(configs: Sequence[ConfigDict]) -> None:
  """One sentence for what keeps the configs from going together."""
  first = configs[0]
  for axis in mesh.AXES:
    if first.mesh[axis] != 1:
      raise ValueError(
        f'mesh.{axis}={first.mesh[axis]} splits a run over devices, which runs'
        f' that go together have one each of; set mesh.{axis} to 1'
      )
  for c in configs[1:]:
    for name, one, other in workdir_lib.differences(first, c):
      if name not in FREE or (name == 'init' and not (one and other)):
        raise ValueError(
          f'config.{name} is {one!r} in one run and {other!r} in another; runs'
          ' that go together differ in seed only, or in the init that all of'
          ' them have: run these apart'
        )


def alike(configs: Sequence[ConfigDict]) -> list[build.Setup]:
  """Their setups; the task sets are loaded once."""
  if configs[0].rollout_kind == 'host':
    raise ValueError(
      f'env.name={configs[0].env.name!r} is a host environment, and only those'
      ' inside jit go together; run these apart'
    )
  s = build.setup(configs[0])
  return [
    s._replace(
      config=c,
      learner=s.learner._replace(seed=c.seed),
      warm=s.warm._replace(seed=c.seed),
    )
    for c in configs
  ]


def _run(
  setups: Sequence[build.Setup], workdirs: Sequence[str], checks
) -> list[str]:
  s, ways = setups[0], seed_axis.over_devices(len(setups))
  plans = [list(stages_lib.make_stages(x, ('sft', 'rl'))) for x in setups]
  plan = [side_by_side(ways, stages) for stages in zip(*plans, strict=True)]
  kept = [
    checkpoint.Checkpoints(
      os.path.join(w, 'checkpoints'), keep=s.config.checkpoint.keep, check=check
    )
    for w, check in zip(workdirs, checks, strict=True)
  ]
  state, resumed, spent = begin(ways, setups, kept)
  writers, logs = [], []
  for x, w, at, check in zip(setups, workdirs, resumed, checks, strict=True):
    workdir_lib.keep_config(x.config, w)
    writers.append(runner.write_metrics(x, w, at, check))
    logs.append(trajectories.Writer(w, resume_after=at, check=check))
  writer = seed_axis.Writers(writers, resumed)
  log = keeper(setups, logs, resumed)
  progress = seed_axis.Progress(
    plan[-1].end, initial=min(at or 0 for at in resumed), show=runner.SHOW
  )
  runner.go(
    plan,
    state,
    watch(ways, s, plan, log),
    writer,
    log,
    seed_axis.Checkpoints(ways, kept, resumed),
    progress,
    spent,
  )
  for one, check in zip(logs, checks, strict=True):
    one.close()
    check()
  return [runner.finish(x, w) for x, w in zip(setups, workdirs, strict=True)]


def keeper(setups, logs: Sequence[trajectories.Writer], resumed) -> Keeper:
  """Deals out to each run's log what all of them keep: arrays [S, ...]."""

  def put(step: int, phase: str, what: Kept) -> None:
    for i, log in seed_axis.there(logs, resumed, step):
      mine = jax.tree.map(lambda x: x[i], what)
      trajectory_log.write(setups[i], log, step, phase, mine)

  def flush() -> None:
    for log in logs:
      log.flush()

  return Keeper(put, flush, every=setups[0].config.log.every)


def begin(ways: seed_axis.Lanes, setups, kept):
  """-> states [S, ...], the steps resumed after or None, seconds spent."""
  s = setups[0]

  def fresh(key):
    state = update_lib.init(s.learner, key).replace(key=key)
    return collect.forget(s, state)

  keys = seed_axis.stack(ways, [jax.random.key(x.config.seed) for x in setups])
  states = seed_axis.unstack(ways, jax.jit(seed_axis.spread(ways, fresh))(keys))
  found = [k.latest(x) for k, x in zip(kept, states, strict=True)]
  states = [f[1] if f else x for f, x in zip(found, states, strict=True)]
  resumed = [f[0] if f else None for f in found]
  spent = max(f[2]['seconds'] if f else 0.0 for f in found)
  begun = s.config.init or s.config.model.path
  if not begun or all(found):
    return seed_axis.stack(ways, states), resumed, spent
  names = [x.config.init for x in setups]
  policies = {
    x.config.init: workdir_lib.start(x.config, s.shape) for x in setups
  }
  states = [
    x if f else workdir_lib.adopt(s.learner, policies[name], x)
    for x, f, name in zip(states, found, names, strict=True)
  ]

  def start(state):
    return due_one(0, update_lib.start_roles(s.learner, state), state)

  start = jax.jit(seed_axis.spread(ways, start))
  return start(seed_axis.stack(ways, states)), resumed, spent


def due_one(step, new: TrainState, old: TrainState) -> TrainState:
  """The new state where the old one is at the step; one that waits stays."""
  here = old.step == step
  return jax.tree.map(lambda a, b: jnp.where(here, a, b), new, old)


def side_by_side(
  ways: seed_axis.Lanes, stages: Sequence[loop.Stage]
) -> loop.Stage:
  """The same stage of each run as one; its batches come with their step."""
  one = stages[0]

  def spread(f, **kwargs):
    return jax.jit(seed_axis.spread(ways, f), **kwargs)

  def tasks(step):
    return seed_axis.stack(
      ways, [(x.tasks(step), np.int32(step)) for x in stages]
    )

  def update(state, batch):
    batch, step = batch
    new, told, some = one.update(state, batch)
    return due_one(step, new, state), told, some

  sample = spread(lambda state, tasks: (one.sample(state, *tasks), tasks[1]))
  return one._replace(
    begin=spread(lambda state: due_one(one.start, one.begin(state), state)),
    tasks=tasks,
    sample=lambda state, tasks, step: sample(state, tasks),
    observe=spread(lambda batch: one.observe(batch[0])),
    update=spread(update, donate_argnums=0),
  )


def watch(
  ways: seed_axis.Lanes, s: build.Setup, stages, log: Keeper
) -> loop.Watch:
  """Every run on the same held-out tasks, as stages.watch plays them."""
  c = s.config
  tasks = len(s.train) + np.arange(len(s.test))

  @jax.jit
  @functools.partial(seed_axis.spread, ways)
  def play(policy, key, attempts, i):
    key = jax.random.fold_in(stream_key(key, Stream.EVAL), i)
    return collect.play(s, policy, attempts, key)

  keep = trajectory_log.of_record(s)

  def look(state, step):
    found, record, attempts = [], None, None
    for i, attempts in enumerate(
      evaluate.rounds(
        tasks,
        c.eval.episodes,
        c.rollout.batch,
        c.rollout.turns,
        c.eval.temperature,
      )
    ):
      args = seed_axis.same(ways, (attempts, np.int32(i)))
      policy = algorithm.whole(s.learner.context, state.params)
      record = jax.device_get(play(policy, state.key, *args))
      found.append(evaluate.ended(record))
    scalars, some = [], []
    for k in range(ways.count):
      mine, last = jax.tree.map(lambda x: x[k], (found, record))
      scalars.append(evaluate.measure(mine, c.eval.episodes, len(tasks)))
      if c.log.held_out:
        first = trajectory_log.first(c.log.held_out, last, attempts)
        some.append(jax.device_get(keep(*first, jnp.int32(step))))
    if some:
      log.write(step, 'eval', jax.tree.map(lambda *x: np.stack(x), *some))
    return seed_axis.gather(scalars)

  return loop.Watch(look, stages_lib.due(c, stages), c.checkpoint.every)
