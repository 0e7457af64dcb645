"""A whole run: stages, evaluation, resume, report."""

import contextlib
import functools
import os
import shlex
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import (
  checkpoint,
  evaluate,
  loop,
  mesh,
  method,
  metrics,
  registry,
  report,
  tracking,
)
from agentrl import learner as learner_lib
from agentrl.dataset import logged, spoken
from agentrl.dataset import tasks as tasks_lib
from agentrl.interrupt import Interrupt
from agentrl.kept import Keeper
from agentrl.nn import kernels
from experiments import (
  build,
  check,
  folder,
  jitting,
  keeping,
  processes,
  rollouts,
)
from experiments import players as players_lib
from experiments.players import Players

SHOW = ('rollout/success', 'eval/success', 'loss/total', 'rollout/turns')


def run(c, workdir: str, *, stages=('sft', 'rl')) -> str:
  """Runs the config in workdir, from wherever it stands; returns a summary."""
  folder.same_config(c, workdir)
  check.log(c)
  s = build.setup(c)
  if c.init:
    folder.same_model(c)
  with Interrupt() as asked, on_mesh(c), players_lib.players(s, asked) as them:
    plan = list(make_stages(s, stages, them))
    return _run(s, workdir, plan, them, asked)


def on_mesh(c):
  """The context in which everything of this config runs."""
  shape = {k: c.mesh[k] for k in mesh.AXES}
  if all(n == 1 for n in shape.values()):
    return contextlib.nullcontext()
  return jax.set_mesh(mesh.make(shape, explicit=c.mesh.explicit))


def _run(s: build.Setup, workdir: str, plan: list[loop.Stage], playing, asked):
  checkpoints = checkpoint.Checkpoints(
    os.path.join(workdir, 'checkpoints'), keep=s.config.checkpoint.keep
  )
  state, resumed, spent = begin(s, workdir, checkpoints)
  if processes.first():
    folder.keep_config(s.config, workdir)
  if s.config.model.path:
    logging.info('%s', computing(s))
  writer = write_metrics(s, workdir, resumed)
  progress = metrics.Progress(
    plan[-1].end,
    initial=int(state.step),
    show=SHOW,
    active=processes.first(),
  )
  log = logged.Writer(workdir, resume_after=resumed, active=processes.first())
  keeper = keeping.keeper(s, log)
  seen = watch(s, plan, keeper, playing)._replace(
    stopping=lambda: processes.each(asked) and None
  )
  go(plan, state, seen, writer, keeper, checkpoints, progress, spent)
  log.close()
  return finish(s, workdir) if processes.first() else ''


def write_metrics(s: build.Setup, workdir: str, resumed) -> metrics.Writer:
  """What writes the run's numbers, wherever they are wanted."""
  c, first = s.config, processes.first()
  tracker = None
  if c.log.wandb and first:
    tracker = tracking.Tracker(
      c.log.wandb, workdir, resume_after=resumed, config=c.to_dict()
    )
  return metrics.Writer(
    workdir,
    resume_after=resumed,
    header=header(s, workdir),
    active=first,
    tracker=tracker,
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
  state = learner_lib.init(s.learner, jax.random.key(c.seed))
  state = rollouts.forget(s, state)
  found = checkpoints.latest(state)
  if found:
    resumed, state, meta = found
    logging.info('Resuming %s after step %d', workdir, resumed)
    return state, resumed, meta['seconds']
  policy = folder.start(c, s.shape)
  if policy is not None:
    state = learner_lib.start_roles(
      s.learner, folder.adopt(s.learner, policy, state)
    )
  return state, None, 0.0


def finish(s: build.Setup, workdir: str) -> str:
  """The learning curve and the summary, from what the run wrote."""
  rows = metrics.read(os.path.join(workdir, 'metrics.jsonl'))
  report.learning_curve(
    rows, os.path.join(workdir, 'curve.png'), title=title(s)
  )
  text = report.summary(rows, header(s, workdir))
  with open(os.path.join(workdir, 'summary.txt'), 'w', encoding='utf-8') as f:
    f.write(text + '\n')
  return text


def title(s: build.Setup) -> str:
  return f'{s.config.method}: {task_name(s)}'


def task_name(s: build.Setup) -> str:
  e = s.config.env
  if s.config.rollout_kind == 'host':
    return s.world.family.name()
  if e.name == 'frozen_lake':
    ice = 'slippery' if e.slip else 'not slippery'
    return f'FrozenLake {e.height}x{e.width}, {ice}'
  if e.name == 'bifurcation':
    slip = f', slip {e.slip:g}' if e.slip else ''
    return f'Bifurcation, {e.length} turns, {e.choices} choices{slip}'
  length = np.sum(s.test.actions >= 0, axis=1)
  length = length[length > 0]
  moves = f', {length.min()}-{length.max()} moves' if length.size else ''
  env = s.world.env
  name = os.path.basename(e.levels) if e.levels else 'Sokoban'
  return f'{name} {env.height}x{env.width}, {env.boxes} box(es){moves}'


def header(s: build.Setup, workdir: str) -> dict:
  c = s.config
  module = s.learner.context.modules['policy']
  device = jax.devices()[0]
  source = f', {c.model.path}' if c.model.path else ''
  return {
    'method': c.method,
    'task': task_name(s),
    'model': f'{s.shape.layers} layers, width {s.shape.width}{source}',
    'computing': computing(s),
    'parameters': mesh.count(module.specs),
    'seed': c.seed,
    'device': f'{len(jax.devices())} x {device.device_kind}',
    'workdir': workdir,
    'command': shlex.join(['python', '-m', *_argv()]),
    'jax': jax.__version__,
    'hp': registry.defaults(s.learner.wiring),
  }


def computing(s: build.Setup) -> str:
  """How a checkpoint is read, in a line."""
  c, tokens = s.shape, s.capacity.row
  kernel = kernels.choose(c.attention, tokens, c.head_dim, c.dtype, c.score_cap)
  frame = 'chat' if s.framed else 'bare'
  return (
    f'attention {kernel} over rows of {tokens} tokens, remat {c.remat},'
    f' {c.dtype}, frame {frame}'
  )


def _argv() -> list[str]:
  main = os.path.splitext(os.path.basename(sys.argv[0]))[0]
  return [f'experiments.{main}', *sys.argv[1:]]


def make_stages(s: build.Setup, names, playing: Players | None = None):
  """Supervised warm start, then RL, on one step counter."""
  c, at = s.config, 0
  playing = playing or players_lib.jitted(s)
  if not _steps(c, names):
    raise ValueError(
      f'there is nothing to do: steps={c.steps}, sft.steps={c.sft.steps},'
      f' init={c.init!r} (which replaces the warm start); raise one of them'
    )
  if 'sft' in names and c.sft.steps and not c.init:
    if shown(s).size:
      yield sft_stage(s, at, at + c.sft.steps, playing)
      at += c.sft.steps
    elif 'rl' in names and c.steps:
      logging.warning(
        '%s The warm start is left out; --config.init=RUN can take its place.',
        no_demonstration(s),
      )
    else:
      raise ValueError(no_demonstration(s))
  if 'rl' in names and c.steps:
    yield rl_stage(s, at, at + c.steps, playing)


def _steps(c, names) -> int:
  """How many steps all stages have."""
  warm = c.sft.steps if 'sft' in names and not c.init else 0
  return warm + (c.steps if 'rl' in names else 0)


def shown(s: build.Setup) -> np.ndarray:
  """Training tasks that have a demonstration."""
  if isinstance(s.train, spoken.TaskSet):
    return np.flatnonzero([bool(said) for said in s.train.said])
  return np.flatnonzero(np.any(s.train.actions >= 0, axis=1))


def no_demonstration(s: build.Setup) -> str:
  return f'No task of {task_name(s)} comes with a demonstration.'


def sft_stage(
  s: build.Setup, start: int, end: int, playing: Players | None = None
) -> loop.Stage:
  tasks, playing = shown(s), playing or players_lib.jitted(s)

  def chosen(step):
    order = tasks_lib.epoch_order(
      len(tasks), s.config.seed, step - start, s.config.sft.batch
    )
    return playing.chosen(tasks[order])

  def sample(state, chosen, step):
    playing.lend(state.params)
    key = jax.random.fold_in(jax.random.fold_in(state.key, 2), step)
    return playing.demonstrate(chosen, key)

  update = jax.jit(keeping.updating(s, s.warm, 1), donate_argnums=0)
  return loop.Stage(
    'sft',
    start,
    end,
    lambda state: state,
    chosen,
    sample,
    lambda batch: {},
    update,
  )


def rl_stage(
  s: build.Setup, start: int, end: int, playing: Players | None = None
) -> loop.Stage:
  c, playing = s.config, playing or players_lib.jitted(s)
  r = c.rollout
  task = registry.bind('task', c.task, c.hp.get('task', {}).get(c.task, {}))

  def attempts(step):
    return task(
      len(s.train),
      step - start,
      group=r.group,
      batch=rollouts.attempted(c),
      limit=r.turns,
      seed=c.seed,
      temperature=r.temperature,
    )

  def sample(state, attempts, step):
    playing.lend(state.params)
    key = jax.random.fold_in(jax.random.fold_in(state.key, 3), step)
    policy = method.whole(s.learner.context, state.params)
    return playing.collect(policy, attempts, key, jnp.int32(step))

  def begin(state):
    state = rollouts.forget(s, learner_lib.start_roles(s.learner, state))
    return state.replace(step=jnp.zeros_like(state.step) + start)

  learner = s.learner._replace(start=start)
  update = jax.jit(keeping.updating(s, learner, r.group), donate_argnums=0)
  return loop.Stage(
    'rl', start, end, begin, attempts, sample, playing.observe, update
  )


def watch(s: build.Setup, stages, log: Keeper, playing: Players) -> loop.Watch:
  """Held-out success at the end of every stage, and now and then."""
  c = s.config
  play, keep = playing.play, keeping.of_record(s)

  def look(state, step):
    playing.lend(state.params)
    scalars, last = evaluate.evaluate(
      functools.partial(play, method.whole(s.learner.context, state.params)),
      len(s.train) + np.arange(len(s.test)),
      episodes=c.eval.episodes,
      batch=c.rollout.batch,
      limit=c.rollout.turns,
      temperature=c.eval.temperature,
      key=held_out_key(state.key),
    )
    if c.log.held_out:
      some = keeping.first(c.log.held_out, *last)
      log.write(step, 'eval', keep(*some, jnp.int32(step)))
    return scalars

  return loop.Watch(look, due(c, stages), c.checkpoint.every)


def held_out_key(key: jax.Array) -> jax.Array:
  """What evaluations draw from: the same at every step."""
  return jax.random.fold_in(key, 4)


def due(c, stages):
  """steps done -> whether held-out tasks are played then."""
  ends = {stage.end for stage in stages} | {stages[0].start}
  if stages[0].name == 'sft':
    ends.discard(stages[0].start)

  def due_at(done: int) -> bool:
    every = c.eval.every
    rl = stages[-1].start
    return done in ends or bool(
      every and done > rl and (done - rl) % every == 0
    )

  return due_at


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
  c = folder.read_config(workdir)
  s = build.setup(jitting.for_evaluation(c, levels, limit))
  first = 0 if levels else len(s.train)
  with on_mesh(c), players_lib.players(s) as playing:
    step, state = folder.load(c, s.shape, workdir)
    playing.lend(state.params)
    numbers, last = evaluate.evaluate(
      functools.partial(
        playing.play, method.whole(s.learner.context, state.params)
      ),
      np.arange(first, len(s.train) + len(s.test)),
      episodes=episodes,
      batch=c.rollout.batch,
      limit=s.plan.turns,
      temperature=temperature,
      key=jax.random.key(seed),
    )
    some = keeping.first(kept, *last)
    some = jax.device_get(keeping.of_record(s)(*some, jnp.int32(step)))
  name = os.path.splitext(os.path.basename(levels))[0] if levels else 'held_out'
  path = os.path.join(workdir, 'evaluations', f'{step:06d}_{name}')
  log = logged.Writer(path, resume_after=None)
  keeping.write(s, log, step, 'eval', some)
  log.close()
  return '\n'.join([
    f'{title(s)}, step {step}, temperature {temperature:g},'
    f' at most {s.plan.turns} turns',
    f'success {numbers["eval/success"]:.1%}'
    f' [{numbers["eval/low"]:.1%}, {numbers["eval/high"]:.1%}] (95%),'
    f' {numbers["eval/solved"]} of {episodes} episodes',
    f'to see some of them: python -m experiments.view {shlex.quote(path)}',
  ])  # fmt: skip
