"""A whole run: stages, evaluation, resume, report."""

import functools
import os
import shlex
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import checkpoint, evaluate, loop, mesh, metrics, registry, report
from agentrl import learner as learner_lib
from agentrl.dataset import tasks as tasks_lib
from experiments import build

SHOW = ('rollout/success', 'eval/success', 'loss/total', 'rollout/turns')


def run(c, workdir: str, *, stages=('sft', 'rl')) -> str:
  """Runs the config in workdir, from wherever it stands; returns a summary."""
  s = build.setup(c)
  os.makedirs(workdir, exist_ok=True)
  keep_config(c, workdir)
  shape = {k: c.mesh[k] for k in mesh.AXES}
  if all(n == 1 for n in shape.values()):
    return _run(s, workdir, stages)
  with jax.set_mesh(mesh.make(shape, explicit=c.mesh.explicit)):
    return _run(s, workdir, stages)


def keep_config(c, workdir: str) -> None:
  """Writes the resolved config, or refuses to mix two in one workdir."""
  path = os.path.join(workdir, 'config.json')
  text = c.to_json(indent=2, sort_keys=True) + '\n'
  if os.path.exists(path):
    with open(path, encoding='utf-8') as f:
      if f.read() != text:
        raise ValueError(
          f'{path} is of another run: this config differs from it; use a new'
          ' --workdir, or delete that folder if you do not need it'
        )
    return
  with open(path + '.new', 'w', encoding='utf-8') as f:
    f.write(text)
  os.replace(path + '.new', path)


def _run(s: build.Setup, workdir: str, names) -> str:
  c = s.config
  state = learner_lib.init(s.learner, jax.random.key(c.seed))
  checkpoints = checkpoint.Checkpoints(
    os.path.join(workdir, 'checkpoints'), keep=c.checkpoint.keep
  )
  found = checkpoints.latest(state)
  resumed, spent = None, 0.0
  if found:
    resumed, state, meta = found
    spent = meta['seconds']
    logging.info('Resuming %s after step %d', workdir, resumed)
  writer = metrics.Writer(
    workdir,
    resume_after=resumed,
    header=header(s, workdir),
    active=jax.process_index() == 0,
  )
  plan = list(make_stages(s, names))
  end = plan[-1].end
  progress = metrics.Progress(end, initial=int(state.step), show=SHOW)
  start = time.monotonic()
  loop.run(
    plan,
    state,
    watch(s, plan, writer),
    writer,
    checkpoints,
    progress,
    lambda: spent + time.monotonic() - start,
  )
  progress.close()
  writer.close()
  checkpoints.close()
  return finish(s, workdir)


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
  if e.name == 'frozen_lake':
    ice = 'slippery' if e.slip else 'not slippery'
    return f'FrozenLake {e.height}x{e.width}, {ice}'
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
  return {
    'method': c.method,
    'task': task_name(s),
    'model': f'{c.model.layers} layers, width {c.model.width}',
    'parameters': mesh.count(module.specs),
    'seed': c.seed,
    'device': f'{len(jax.devices())} x {device.device_kind}',
    'workdir': workdir,
    'command': shlex.join(['python', '-m', *_argv()]),
    'jax': jax.__version__,
    'hp': registry.defaults(s.learner.wiring),
  }


def _argv() -> list[str]:
  main = os.path.splitext(os.path.basename(sys.argv[0]))[0]
  return [f'experiments.{main}', *sys.argv[1:]]


def make_stages(s: build.Setup, names):
  """Supervised warm start, then RL, on one step counter."""
  c, at = s.config, 0
  if 'sft' in names and c.sft.steps:
    yield sft_stage(s, at, at + c.sft.steps)
    at += c.sft.steps
  if 'rl' in names and c.steps:
    yield rl_stage(s, at, at + c.steps)


def sft_stage(s: build.Setup, start: int, end: int) -> loop.Stage:
  said, length = build.messages(s, s.train)
  shown = np.flatnonzero(length.sum(axis=1))
  if not shown.size:
    raise ValueError(
      'the warm start needs demonstrations and no task has one that fits in'
      f' rollout.turns={s.plan.turns}; set sft.steps=0 or allow more turns'
    )
  replay = build.sharded(functools.partial(build.demonstrate, s))

  def collect(state, step):
    order = tasks_lib.epoch_order(
      len(shown), s.config.seed, step - start, s.config.sft.batch
    )
    index = shown[order]
    attempts = build.demo_attempts(s, index)
    args = (attempts, said[index], length[index])
    key = jax.random.fold_in(jax.random.fold_in(state.key, 2), step)
    return replay(*build.replicated(args), key)

  update = jax.jit(
    functools.partial(learner_lib.update, s.warm), donate_argnums=0
  )
  return loop.Stage(
    'sft', start, end, lambda state: state, collect, lambda batch: {}, update
  )


def rl_stage(s: build.Setup, start: int, end: int) -> loop.Stage:
  c = s.config
  r = c.rollout
  task = registry.bind('task', c.task, c.hp.get('task', {}).get(c.task, {}))
  sample = build.sharded(functools.partial(build.collect, s))

  def collect(state, step):
    attempts = task(
      len(s.train),
      step - start,
      group=r.group,
      batch=r.batch,
      limit=r.turns,
      seed=c.seed,
      temperature=r.temperature,
    )
    key = jax.random.fold_in(jax.random.fold_in(state.key, 3), step)
    policy = state.params[learner_lib.POLICY]
    return sample(policy, build.replicated(attempts), key, jnp.int32(step))

  def begin(state):
    state = learner_lib.start_roles(s.learner, state)
    return state.replace(step=jnp.zeros_like(state.step) + start)

  update = jax.jit(
    functools.partial(learner_lib.update, s.learner), donate_argnums=0
  )
  return loop.Stage('rl', start, end, begin, collect, loop.observe, update)


def watch(s: build.Setup, stages, writer: metrics.Writer) -> loop.Watch:
  """Held-out success at the end of every stage, and now and then."""
  c = s.config
  player = jax.jit(functools.partial(build.play, s))

  def play(params, attempts, key):
    return player(params, build.replicated(attempts), key)

  def look(state, step):
    scalars, record = evaluate.evaluate(
      functools.partial(play, state.params[learner_lib.POLICY]),
      len(s.train) + np.arange(len(s.test)),
      episodes=c.eval.episodes,
      batch=c.rollout.batch,
      limit=c.rollout.turns,
      temperature=c.eval.temperature,
      key=jax.random.fold_in(state.key, 4),
    )
    text = evaluate.show(record, s.tokenizer.decode)
    writer.text('held_out', step, text)
    return scalars

  ends = {stage.end for stage in stages} | {stages[0].start}
  if stages[0].name == 'sft':
    ends.discard(stages[0].start)

  def due(done: int) -> bool:
    every = c.eval.every
    rl = stages[-1].start
    return done in ends or bool(
      every and done > rl and (done - rl) % every == 0
    )

  return loop.Watch(look, due, c.checkpoint.every)
