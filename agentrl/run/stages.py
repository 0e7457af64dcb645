"""What a run does step by step: its stages, and when it looks up from them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import evaluate, loop, registry
from agentrl.dataset import host_tasks, jit_tasks
from agentrl.learner import algorithm
from agentrl.learner import update as update_lib
from agentrl.log.sample import Keeper
from agentrl.rollout.keys import Stream, step_key, stream_key
from agentrl.run import build, collect, describe, sampler, trajectory_log
from agentrl.run.sampler import Players


def make_stages(s: build.Setup, names, playing: Players | None = None):
  """Supervised warm start, then RL, on one step counter."""
  c, at = s.config, 0
  playing = playing or sampler.jitted(s)
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
  if isinstance(s.train, host_tasks.TaskSet):
    return np.flatnonzero([bool(said) for said in s.train.said])
  return np.flatnonzero(np.any(s.train.actions >= 0, axis=1))


def no_demonstration(s: build.Setup) -> str:
  return f'No task of {describe.task_name(s)} comes with a demonstration.'


def sft_stage(
  s: build.Setup, start: int, end: int, playing: Players | None = None
) -> loop.Stage:
  tasks, playing = shown(s), playing or sampler.jitted(s)

  def chosen(step):
    order = jit_tasks.epoch_order(
      len(tasks), s.config.seed, step - start, s.config.sft.batch
    )
    return playing.chosen(tasks[order])

  def sample(state, chosen, step):
    playing.lend(state.params)
    key = step_key(state.key, Stream.SFT, step)
    return playing.demonstrate(chosen, key)

  update = jax.jit(trajectory_log.updating(s, s.warm, 1), donate_argnums=0)
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
  c, playing = s.config, playing or sampler.jitted(s)
  r = c.rollout
  task = registry.bind('task', c.task, c.hp.get('task', {}).get(c.task, {}))

  def attempts(step):
    return task(
      len(s.train),
      step - start,
      group=collect.attempted_group(c),
      batch=collect.attempted(c),
      limit=r.turns,
      seed=c.seed,
      temperature=r.temperature,
    )

  def sample(state, attempts, step):
    playing.lend(state.params)
    key = step_key(state.key, Stream.ROLLOUT, step)
    policy = algorithm.whole(s.learner.context, state.params)
    return playing.collect(policy, attempts, key, jnp.int32(step))

  def begin(state):
    state = collect.forget(s, update_lib.start_roles(s.learner, state))
    return state.replace(step=jnp.zeros_like(state.step) + start)

  learner = s.learner._replace(start=start)
  update = jax.jit(
    trajectory_log.updating(s, learner, r.group), donate_argnums=0
  )
  return loop.Stage(
    'rl', start, end, begin, attempts, sample, playing.observe, update
  )


def watch(s: build.Setup, stages, log: Keeper, playing: Players) -> loop.Watch:
  """Held-out success at the end of every stage, and now and then."""
  c = s.config
  play, keep = playing.play, trajectory_log.of_record(s)

  def look(state, step):
    playing.lend(state.params)
    scalars, last = evaluate.evaluate(
      functools.partial(play, algorithm.whole(s.learner.context, state.params)),
      len(s.train) + np.arange(len(s.test)),
      episodes=c.eval.episodes,
      batch=c.rollout.batch,
      limit=c.rollout.turns,
      temperature=c.eval.temperature,
      key=stream_key(state.key, Stream.EVAL),
    )
    if c.log.held_out:
      some = trajectory_log.first(c.log.held_out, *last)
      log.write(step, 'eval', keep(*some, jnp.int32(step)))
    return scalars

  return loop.Watch(look, due(c, stages), c.checkpoint.every)


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
