"""Has a service decide what is practised, before a batch is made."""

import zlib
from typing import Any

import jax
import numpy as np

from agentrl import registry
from agentrl.env import skills
from agentrl.env.skills import NO_SKILLS, SKILLS, SkillTable
from agentrl.memory.skills import NAME, Practice, Skills
from agentrl.run.experiment import Experiment
from agentrl.run.play.base import EnvSampler
from agentrl.runtime import distributed
from agentrl.service.base import ServiceFault
from agentrl.task import skill_operations
from agentrl.task.skill_operations import Rule
from agentrl.text.message import Message
from agentrl.types import TrainState


def proposes(spec: registry.MethodSpec) -> bool:
  """Tells whether a service decides what a method practises."""
  return SKILLS in registry.needs(spec, 'task', 'task', spec.task)


def skills_of(spec: registry.MethodSpec, world: Any, train: int) -> SkillTable:
  """Lists the skills of training tasks; none where a method practises none.

  Args:
    world: the bundle of a host environment, with all tasks
    train: tasks to train on, which come first
  Raises:
    ValueError: there are more than the memory has room for.
  """
  if not proposes(spec):
    return NO_SKILLS
  table = skills.table(world.family, world.tasks[:train])
  values = spec.values('memory', NAME)
  room = registry.settings(registry.get('memory', NAME), values)['capacity']
  if len(table.parts) > room:
    raise ValueError(
      f'hp.memory.skills.capacity must be >= {len(table.parts)}, the skills of'
      f' the tasks to train on, got {room}'
    )
  return table


def practice(
  s: Experiment, playing: EnvSampler, state: TrainState, step: int
) -> Practice | None:
  """Asks what to practise; None for methods that practise no skills.

  A service that fails, or says nothing that can be used, changes nothing. Until
  something is proposed basic skills are practised.

  Args:
    playing: has the service
    state: whose memory the service sees, and whose roles it may be
    step: of RL
  """
  spec = s.algorithm.spec
  if not proposes(spec):
    return None
  values = spec.values('task', spec.task)
  settings = registry.settings(registry.get('task', spec.task), values)
  memory: Skills = jax.device_get(state.memory[NAME])
  size, asked, refused = len(memory.added), 0, 0
  now, added = np.asarray(memory.practised), np.zeros(size, bool)
  if step % settings['every'] == 0:
    playing.update_service_params(state.params)
    made = _decided(s, playing, settings, memory, step)
    asked, refused, added = 1, made.refused, made.added
    now = made.proposed if made.proposed.any() else now
  if not now.any():
    now = np.pad(s.skills.basic(), (0, size - len(s.skills.parts)))
  on_host: dict[str, Any] = {
    'skill': s.skills.of_task,
    'now': now,
    'added': added,
    'asked': np.int32(asked),
    'refused': np.int32(refused),
  }
  return Practice(**on_host)


def _decided(
  s: Experiment,
  playing: EnvSampler,
  settings: dict[str, Any],
  memory: Skills,
  step: int,
) -> skill_operations.Decision:
  """Asks the service in one process; seeds are such that runs repeat."""
  rule = Rule(settings['level'], settings['tolerance'], settings['confirm'])
  text = skill_operations.question(
    settings['instruction'],
    s.skills,
    memory,
    step,
    rule=rule,
    shown=settings['shown'],
  )

  def told() -> list[str]:
    """Asks in one process; no answer is one that cannot be used."""
    return [
      _answer(playing, settings['service'], text) for _ in distributed.share(1)
    ]

  (answer,) = [x for some in distributed.allgather_objects(told) for x in some]
  most = settings['operations']
  return skill_operations.parsed(
    answer, s.skills, memory, rule=rule, operations=most
  )


def _answer(playing: EnvSampler, service: str, text: str) -> str:
  """Returns what a service answers, cut to what may be read and one more."""
  seed = zlib.crc32(text.encode()) >> 1
  try:
    said = playing.service(service)([Message('user', text)], seed=seed)
  except ServiceFault:
    return ''
  return said[: skill_operations.MOST + 1]
