"""Descriptions of a run: its task, its title, the header of its records."""

import os
import shlex
import sys
from collections.abc import Sequence

import jax
import numpy as np

from agentrl import mesh, registry
from agentrl.configs.stages import StagePlan
from agentrl.log import run_summary
from agentrl.nn import transformer
from agentrl.run.experiment import Experiment


def title(s: Experiment) -> str:
  return f'{s.config.method}: {task_name(s)}'


def opening(
  configs: Sequence, workdirs: Sequence[str], stages: Sequence[StagePlan]
) -> str:
  """Describes runs in a line, before anything of them is built."""
  c = configs[0]
  parts = [f'{x.steps} {x.name}' for x in stages]
  parts = ' and '.join([', '.join(parts[:-1])] * (len(parts) > 1) + parts[-1:])
  seeds = ', '.join(str(x.seed) for x in configs)
  return (
    f'{c.method} on {c.env.name}: {parts} steps, seed {seeds}, on {devices()},'
    f' in {", ".join(workdirs)}'
  )


def devices() -> str:
  return f'{len(jax.devices())} x {jax.devices()[0].device_kind}'


def model(s: Experiment) -> str:
  """Describes the policy's network."""
  n = mesh.count(s.algorithm.context.modules['policy'].specs)
  size = run_summary.count(n)
  return f'{s.shape.layers} layers, width {s.shape.width}, {size} parameters'


def task_name(s: Experiment) -> str:
  e = s.config.env
  if s.on_host:
    return s.world.family.name()
  if e.name == 'frozen_lake':
    ice = 'slippery' if e.slip else 'not slippery'
    return f'FrozenLake {e.height}x{e.width}, {ice}'
  if e.name == 'bifurcation':
    slip = f', slip {e.slip:g}' if e.slip else ''
    return f'Bifurcation, {e.length} turns, {e.choices} choices{slip}'
  if e.name != 'sokoban':
    return e.name
  length = np.sum(s.test.actions >= 0, axis=1)
  length = length[length > 0]
  moves = f', {length.min()}-{length.max()} moves' if length.size else ''
  env = s.world.env
  name = os.path.basename(e.levels) if e.levels else 'Sokoban'
  return f'{name} {env.height}x{env.width}, {env.boxes} box(es){moves}'


def header(s: Experiment, workdir: str) -> dict:
  c = s.config
  module = s.algorithm.context.modules['policy']
  source = f', {c.model.path}' if c.model.path else ''
  return {
    'method': c.method,
    'task': task_name(s),
    'model': f'{s.shape.layers} layers, width {s.shape.width}{source}',
    'computing': computing(s),
    'parameters': mesh.count(module.specs),
    'seed': c.seed,
    'device': devices(),
    'workdir': workdir,
    'command': shlex.join(command()),
    'processes': jax.process_count(),
    'jax': jax.__version__,
    'hp': registry.defaults(s.algorithm.spec),
  }


def computing(s: Experiment) -> str:
  """Describes the computation of a checkpoint, in a line."""
  c, tokens = s.shape, s.capacity.row
  kernel = transformer.kernel(c, tokens)
  frame = 'chat' if s.framed else 'bare'
  return (
    f'attention {kernel} over rows of {tokens} tokens, remat {c.remat},'
    f' {c.dtype}, chat_format {frame}'
  )


def command() -> list[str]:
  """Returns the command of this process; [] in a notebook or a shell."""
  folder, program = os.path.split(sys.argv[0])
  if ' ' in program or os.path.basename(folder) == 'experiments':
    return [*main(), *sys.argv[1:]]
  if program.endswith('.py') and not program.startswith('ipykernel'):
    return ['python', *sys.argv]
  return []


def main(name: str = '') -> list[str]:
  """Returns the command of a main: by `agentrl NAME` or by `-m`.

  Args:
    name: of the main; this one's if empty
  """
  program, _, own = os.path.basename(sys.argv[0]).partition(' ')
  if own:  # see cli.command
    return [program, name or own]
  name = name or os.path.splitext(program)[0]
  return ['python', '-m', f'experiments.{name}']
