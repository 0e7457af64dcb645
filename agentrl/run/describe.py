"""A run in words: its task, its title, the head of its records."""

import os
import shlex
import sys

import jax
import numpy as np

from agentrl import mesh, registry
from agentrl.nn import attention_kernels
from agentrl.run import build


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
    'command': shlex.join([*main(), *sys.argv[1:]]),
    'jax': jax.__version__,
    'hp': registry.defaults(s.learner.wiring),
  }


def computing(s: build.Setup) -> str:
  """How a checkpoint is read, in a line."""
  c, tokens = s.shape, s.capacity.row
  kernel = attention_kernels.choose(
    c.attention, tokens, c.head_dim, c.dtype, c.score_cap
  )
  frame = 'chat' if s.framed else 'bare'
  return (
    f'attention {kernel} over rows of {tokens} tokens, remat {c.remat},'
    f' {c.dtype}, frame {frame}'
  )


def main(name: str = '') -> list[str]:
  """How a main is started, as this one was: by `agentrl NAME` or by `-m`.

  Args:
    name: of the main; this one's if empty
  """
  program, _, own = os.path.basename(sys.argv[0]).partition(' ')
  if own:  # see cli.command
    return [program, name or own]
  name = name or os.path.splitext(program)[0]
  return ['python', '-m', f'experiments.{name}']
