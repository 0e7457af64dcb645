"""Host environments of a config: families, tasks, words and sizes."""

from typing import NamedTuple

import jax
from ml_collections import ConfigDict

from agentrl.configs import envs
from agentrl.dataset import host_tasks
from agentrl.env import base
from agentrl.rollout.engine import engine
from agentrl.rollout.host import CUT, Limits, Stage
from agentrl.rollout.record import Capacity
from agentrl.run import validate
from agentrl.text import chat_format, chat_template
from agentrl.text.chat_template import Message
from agentrl.text.tokenizer import Tokenizer


class Sized(NamedTuple):
  """What is known before there are tasks."""

  family: base.Family
  talk: chat_format.Talk
  plan: Limits

  @property
  def capacity(self) -> Capacity:
    return self.plan.capacity


class Parts(NamedTuple):
  """What a run of a host environment has."""

  world: Stage
  train: host_tasks.TaskSet
  test: host_tasks.TaskSet


def sized(
  c: ConfigDict, words: Tokenizer, chat: chat_template.Chat | None
) -> Sized:
  """Checks what the config says of its host environment."""
  _check(c)
  found = envs.family(c)
  validate.services(c, base.needs(found), c.host.place or found.place)
  talk = chat_format.framed(chat) if chat else chat_format.bare(words)
  return Sized(found, talk, limits(c, found, talk))


def parts(c: ConfigDict, known: Sized) -> Parts:
  """Makes the tasks, or finds them."""
  train, test = (
    host_tasks.load(
      known.family, split, c.env[split], c.env.seed, folder=c.data
    )
    for split in ('train', 'test')
  )
  stop = None
  if c.host.stop:
    stop = engine.texts(c.host.stop, known.talk.words.decode)
  stage = Stage(
    tasks=[*train.tasks, *test.tasks],
    family=known.family,
    talk=known.talk,
    limits=known.plan,
    top_k=c.rollout.top_k,
    top_p=c.rollout.top_p,
    stop=stop,
  )
  return Parts(stage, train, test)


def limits(c: ConfigDict, found: base.Family, talk: chat_format.Talk) -> Limits:
  """What a trajectory may take; a context of 0 holds whatever turns need."""
  r, h = c.rollout, c.host
  system = found.system
  begin = [Message('system', system)] if system else []
  cut = [Message('user', CUT)]
  least = len(talk.start(cut).ids)
  opening = len(talk.start([*begin, *cut]).ids) - least
  if h.heard < least:
    raise ValueError(
      f'host.heard={h.heard} tokens cannot even say that an observation was'
      f' cut; set it to {least} or more'
    )
  sizes = dict(
    turns=r.turns,
    message=r.message,
    heard=h.heard,
    opening=opening,
    history=r.history,
    window=r.window,
    seconds=h.seconds,
    start=h.start,
    patience=h.patience,
  )
  whole = opening + r.turns * (h.heard + r.message)
  once = opening + r.window * (h.heard + r.message)
  return Limits(
    context=(r.context or whole) if r.history == 'full' else once, **sizes
  )


def sizes(c: ConfigDict, capacity: int) -> engine.Sizes:
  """What a slot engine of each process is compiled for."""
  h = c.host
  return engine.Sizes(
    slots=c.rollout.slots // jax.process_count(),
    capacity=capacity,
    burst=h.burst,
    chunk=h.chunk,
    lanes=h.lanes,
  )


def models(c: ConfigDict) -> dict[tuple[str, str], int]:
  """(role, run) of each model that services speak through -> its capacity."""
  room: dict[tuple[str, str], int] = {}
  for service in c.service.values():
    if not service.function:
      at = service.role, service.run
      room[at] = max(room.get(at, 0), service.context)
  return room


def messages(
  c: ConfigDict, words: Tokenizer, said: list[list[str]]
) -> list[list[list[int]]]:
  """Demonstrations as tokens, each message with its end of turn.

  Raises:
    ValueError: for one longer than a message or a trajectory may be.
  """
  found = [
    [[*words.encode(text), words.eot] for text in texts] for texts in said
  ]
  longest = max((len(m) for texts in found for m in texts), default=0)
  if longest > c.rollout.message:
    raise ValueError(
      f'a demonstration has a message of {longest} tokens with its end of turn'
      f' and rollout.message={c.rollout.message} allows fewer; set it to'
      f' {longest}'
    )
  turns = max(map(len, found), default=0)
  if turns > c.rollout.turns:
    raise ValueError(
      f'a demonstration has {turns} turns and rollout.turns={c.rollout.turns}'
      f' allows fewer; set it to {turns}'
    )
  return found


def _check(c: ConfigDict) -> None:
  if c.rollout.slots % jax.process_count():
    raise ValueError(
      f'rollout.slots={c.rollout.slots} is not divisible by the'
      f' {jax.process_count()} processes that share them; make it a multiple'
    )
