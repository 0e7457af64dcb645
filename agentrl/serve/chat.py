"""Conversations of a person with the agent of a run.

The person is the user: a line is a message. Calls of tools go to the world of
the run, set up for one of its held-out tasks, and what it answers is shown. The
conversation is a trajectory, logged as any other.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.env import base as env_base
from agentrl.env.base import EnvFamily, HostEnv, HostTask, Step
from agentrl.learner import algorithm
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.run import build, describe, evaluation, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import fields
from agentrl.run.play import collect, sampler
from agentrl.serve import play_agent
from agentrl.text.spans import Interval
from agentrl.types import Status

TURNS = 64  # of a conversation, at most
_PATIENCE = 7 * 86_400.0  # seconds that a person may take
QUIT = 'q'
Show = Callable[[str, str], None]  # (text, who says it)


class PersonEnv:
  """A `HostEnv` whose observations a person writes, unless a tool is called."""

  def __init__(
    self,
    lines: Iterator[str],
    show: Show,
    is_call: Callable[[str], bool],
    world: HostEnv | None,
  ):
    """Begins a conversation; `world`, if any, answers messages that call."""
    self._lines, self._show = lines, show
    self._is_call, self._world = is_call, world

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    if self._world is not None:
      self._world.reset(task, seed)
    return next(self._lines, '')

  def step(self, message: str) -> Step:
    self._show(message, 'agent')
    if self._world is not None and self._is_call(message):
      answer = self._world.step(message)
      self._show(answer.text, 'tool')
      if not answer.done:
        return Step(answer.text, role=answer.role)
    line = next(self._lines, QUIT)
    return Step('' if line == QUIT else line, done=line == QUIT)

  def close(self) -> None:
    if self._world is not None:
      self._world.close()


@dataclasses.dataclass(frozen=True)
class PersonFamily:
  """Family of one conversation, on top of the family of a run."""

  inner: EnvFamily
  lines: Iterator[str]
  show: Show

  columns = ()
  worker = 'thread'  # where the terminal is

  @property
  def system(self) -> str:
    return self.inner.system

  def name(self) -> str:
    return 'person'

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    return self.inner.tasks(split, count, seed)

  def spans(self, message: str) -> Sequence[Interval]:
    return env_base.spans(self.inner, message)

  def env(self) -> HostEnv:
    def is_call(message: str) -> bool:
      return any(x.part == 'call' for x in self.spans(message))

    # What a program does with calls is its own business.
    programs = isinstance(self.inner, env_base.PlaysPrograms)
    world = None if programs else self.inner.env()
    return PersonEnv(self.lines, self.show, is_call, world)


def config_of(run: str) -> Config:
  """Returns the config of a run for one conversation, as long as trained on.

  What was trained on one turn reads every message alone.

  Raises:
    ValueError: its world is played inside jit, or it does not read all turns.
  """
  c = workdir_lib.read_config(run)
  if plans := stage_list.plans(c):
    c = plans[-1].config
  s = build.experiment(play_agent.one_episode(c, None))
  world = s.world
  if not isinstance(world, HostEnvBundle) or world.limits.history != 'full':
    raise ValueError(
      f'{run} must have been trained on conversations that read all turns, got'
      f' env.name={c.env.name!r}; watch it with experiments.play, or talk to it'
      ' at the address of experiments.serve'
    )
  changes: dict[str, Any] = {
    'rollout.context': world.limits.context,
    'rollout.max_turns': TURNS,
    'host.step_timeout': _PATIENCE,
    'host.reset_timeout': _PATIENCE,
    'host.episode_timeout': _PATIENCE,
  }
  if world.limits.turns == 1:
    changes['rollout.history'] = 'turn'
  return fields.changed(s.config, changes)


def free_folder(parent: str) -> str:
  """Returns the first folder 000, 001, ... that is not there yet."""
  names = (f'{i:03d}' for i in range(10**9))
  return next(
    str(path)
    for path in (pathlib.Path(parent) / name for name in names)
    if not path.exists()
  )


def converse(
  run: str,
  lines: Iterable[str],
  show: Show,
  *,
  temperature: float,
  seed: int,
  out: str,
) -> str:
  """Talks until the person leaves or the context is full.

  Args:
    lines: of the person; `QUIT`, or their end, ends the conversation
    show: gets what the agent and tools say
    seed: of the sampling and of the held-out task whose world answers calls
    out: folder of the trajectory, new
  Returns: how it ended, and how to see it
  """
  whole, c = workdir_lib.read_config(run), config_of(run)
  s = build.experiment(c)
  world = s.world
  assert isinstance(world, HostEnvBundle)
  step, state = weights.load(whole, s.shape, run)
  params = algorithm.full_params(s.algorithm.context, state.params)
  index = len(s.train) + seed % len(s.test)
  show(f'{describe.title(s)}, step {step}; {QUIT} ends the conversation', '')
  if c.rollout.history == 'turn':
    show('Trained on one turn: it reads each message alone.', '')
  attempts = collect.attempts_at(np.array([index]), TURNS).replace(
    temperature=np.full(1, temperature, np.float32)
  )
  with sampler.open_host_sampler(s) as player:
    player.update_service_params(state.params)
    family = PersonFamily(player.served_family(), iter(lines), show)
    record = player.play_in(
      world._replace(family=family), params, attempts, jax.random.key(seed)
    )
  evaluation.write(s, out, step, (record, attempts), 1)
  ended = Status(int(record.status[0])).name.lower().replace('_', ' ')
  turns = int(np.sum(record.valid))
  count = f'{turns} message' + 's' * (turns != 1)
  return f'{ended} after {count}\n{evaluation.to_see(out)}'
