"""A whole run: stages, evaluation, resume, report."""

import contextlib
import functools
import os
import pathlib
import shlex
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import checkpoint, distributed, evaluate, loop, storage
from agentrl.learner import algorithm, update
from agentrl.log import metrics, run_summary, trajectories, wandb_tracker
from agentrl.preemption import Interrupt
from agentrl.rollout.keys import Stream, stream_key
from agentrl.run import (
  build,
  collect,
  describe,
  jit_env,
  placement,
  sampler,
  trajectory_log,
  validate,
)
from agentrl.run import lock as lock_lib
from agentrl.run import stages as stages_lib
from agentrl.run import workdir as workdir_lib

SHOW = ('rollout/success', 'eval/success', 'loss/total', 'rollout/turns')


def run(c, workdir: str, *, stages=('sft', 'rl')) -> str:
  """Runs the config in workdir, from wherever it stands; returns a summary."""
  validate.config(c)
  workdir_lib.same_config(c, workdir)
  validate.log(c)
  s = build.setup(c)
  if c.init:
    workdir_lib.same_model(c)
  with (
    Interrupt() as asked,
    placement.on_mesh(c),
    sampler.players(s, asked) as them,
  ):
    plan = list(stages_lib.make_stages(s, stages, them))
    with locked(workdir) as check_lock:
      workdir_lib.same_config(
        c, workdir
      )  # of who held the lock before, if anybody
      return _run(s, workdir, plan, them, asked, check_lock)


@contextlib.contextmanager
def locked(workdir: str):
  """Process 0 holds the workdir's lock; gives what raises once it is lost.

  Raises: lock.TakenError in process 0 where another training holds it, and in
    the other processes that this one failed.
  """
  with contextlib.ExitStack() as stack:

    def take():
      if distributed.first():
        return stack.enter_context(lock_lib.Lock(workdir)).check
      return lambda: None

    mine = []
    try:
      distributed.each(lambda: mine.append(take()))
    except RuntimeError as error:
      raise lock_lib.TakenError(str(error)) from error
    yield mine[0]


def _run(s: build.Setup, workdir: str, plan: list[loop.Stage], playing, asked,
         check_lock):  # fmt: skip
  checkpoints = checkpoint.Checkpoints(
    os.path.join(workdir, 'checkpoints'),
    keep=s.config.checkpoint.keep,
    check=check_lock,
  )
  state, resumed, spent = begin(s, workdir, checkpoints)
  if distributed.first():
    workdir_lib.keep_config(s.config, workdir)
  if s.config.model.path:
    logging.info('%s', describe.computing(s))
  writer = write_metrics(s, workdir, resumed, check_lock)
  progress = metrics.Progress(
    plan[-1].end,
    initial=int(state.step),
    show=SHOW,
    active=distributed.first(),
  )
  log = trajectories.Writer(
    workdir, resume_after=resumed, active=distributed.first(), check=check_lock
  )
  keeper = trajectory_log.keeper(s, log)

  def stopping():
    asked()
    check_lock()

  seen = stages_lib.watch(s, plan, keeper, playing)._replace(
    stopping=lambda: distributed.each(stopping) and None
  )
  go(plan, state, seen, writer, keeper, checkpoints, progress, spent)
  log.close()
  check_lock()
  return finish(s, workdir) if distributed.first() else ''


def write_metrics(
  s: build.Setup, workdir: str, resumed, check_lock=lambda: None
) -> metrics.Writer:
  """What writes the run's numbers, wherever they are wanted."""
  c, first = s.config, distributed.first()
  tracker = None
  if c.log.wandb and first:
    tracker = wandb_tracker.Tracker(
      c.log.wandb, workdir, resume_after=resumed, config=c.to_dict()
    )
  return metrics.Writer(
    workdir,
    resume_after=resumed,
    header=describe.header(s, workdir),
    active=first,
    tracker=tracker,
    check=check_lock,
  )


def go(plan, state, seen: loop.Watch, writer, log, checkpoints, progress,
       spent):  # fmt: skip
  """The loop to its end, on the clock that stood at `spent` seconds."""
  start = time.monotonic()

  def clock():
    return spent + time.monotonic() - start

  loop.run(plan, state, seen, writer, log, checkpoints, progress, clock)
  for x in (progress, writer, checkpoints):
    x.close()


def begin(s: build.Setup, workdir: str, checkpoints: checkpoint.Checkpoints):
  """-> state, the step resumed after or None, seconds spent so far."""
  c = s.config
  state = update.init(s.learner, jax.random.key(c.seed))
  state = collect.forget(s, state)
  found = checkpoints.latest(state)
  if found:
    resumed, state, meta = found
    logging.info('Resuming %s after step %d', workdir, resumed)
    return state, resumed, meta['seconds']
  policy = workdir_lib.start(c, s.shape)
  if policy is not None:
    state = update.start_roles(
      s.learner, workdir_lib.adopt(s.learner, policy, state)
    )
  return state, None, 0.0


def finish(s: build.Setup, workdir: str) -> str:
  """The learning curve and the summary, from what the run wrote."""
  path = pathlib.Path(workdir, metrics.FILE)
  metrics.repair(path)  # nobody has checked it since the run began
  rows, curve = metrics.read(path), pathlib.Path(workdir, 'curve.png')
  if curve.is_dir():
    storage.set_aside(curve, 'is a folder where a file is to be')
  run_summary.learning_curve(rows, str(curve), title=describe.title(s))
  text = run_summary.summary(rows, describe.header(s, workdir))
  storage.write(os.path.join(workdir, 'summary.txt'), text + '\n')
  return text


def evaluate_run(
  workdir: str,
  *,
  episodes: int = 1000,
  temperature: float = 1.0,
  levels: str | None = None,
  limit: int | None = None,
  seed: int = 0,
  kept: int = 8,
) -> str:
  """Plays with a run's newest policy; returns what to print.

  Args:
    levels: another Sokoban level file, all of whose levels are played; else
      the run's own held-out tasks
    limit: turns; else as many as in training
    kept: trajectories that are logged, to be looked at
  """
  c = workdir_lib.read_config(workdir)
  s = build.setup(jit_env.for_evaluation(c, levels, limit))
  first = 0 if levels else len(s.train)
  with placement.on_mesh(c), sampler.players(s) as playing:
    step, state = workdir_lib.load(c, s.shape, workdir)
    playing.lend(state.params)
    numbers, last = evaluate.evaluate(
      functools.partial(
        playing.play, algorithm.whole(s.learner.context, state.params)
      ),
      np.arange(first, len(s.train) + len(s.test)),
      episodes=episodes,
      batch=c.rollout.batch,
      limit=s.plan.turns,
      temperature=temperature,
      key=stream_key(jax.random.key(seed), Stream.EVAL),
    )
    some = trajectory_log.first(kept, *last)
    some = jax.device_get(trajectory_log.of_record(s)(*some, jnp.int32(step)))
  name = os.path.splitext(os.path.basename(levels))[0] if levels else 'held_out'
  path = os.path.join(workdir, 'evaluations', f'{step:06d}_{name}')
  log = trajectories.Writer(path, resume_after=None)
  trajectory_log.write(s, log, step, 'eval', some)
  log.close()
  return '\n'.join([
    f'{describe.title(s)}, step {step}, temperature {temperature:g},'
    f' at most {s.plan.turns} turns',
    f'success {numbers["eval/success"]:.1%}'
    f' [{numbers["eval/low"]:.1%}, {numbers["eval/high"]:.1%}] (95%),'
    f' {numbers["eval/solved"]} of {numbers["eval/episodes"]} episodes'
    f'{_unscored(numbers["eval/unscored"])}',
    f'to see some of them: {shlex.join([*describe.main("view"), path])}',
  ])  # fmt: skip


def _unscored(n: int) -> str:
  return f'; {n} more broke with their environment' if n else ''
