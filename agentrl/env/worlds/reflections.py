"""Reflections: say after a failed attempt what would help the next one.

An actor plays the rooms of a `door_codes` task; the agent sees what the actor
said, the last of which was wrong, and writes a note that it reads when it tries
again:

  b3
  a1          the first door opened, the second did not
  a2          the note
  b3
  a2          (the actor, with the note: solved)

A reflection earns by how much the next attempt is better than the last. The
actor is a service, such as a frozen copy of the policy, or a rule that follows
notes. So that a small model can learn both parts before, told tasks ask it to
act on notes, as told tasks of `door_codes` do, or to write a note of the door
that failed, of any code. After Retroformer, 2308.02151.
"""

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.worlds import door_codes
from agentrl.env.worlds.door_codes import CASES, DOORS, DoorCodes, DoorCodesEnv
from agentrl.service.base import Service
from agentrl.text.message import Message
from agentrl.text.tool_calls.base import spoken

SERVICE = 'service'
FIRST = 8  # attempts without a note, of which the first that fails is shown
ACTING = 0.8  # share of told tasks that ask to act on notes, the harder part
RULES = (
  'You see the doors that an actor came to and the codes it said, the last of'
  ' which was wrong. Write a note that would help it, a door and its code, such'
  ' as b3.'
)
_NOTE = re.compile(r'([a-h])([1-9])')
Said = tuple[tuple[str, str], ...]  # doors that were come to, what was said


@dataclasses.dataclass(frozen=True)
class Reflections:
  """A task is the doors of rooms; or, if it is told, one of the two parts."""

  doors: Annotated[int, domain.Whole(1, len(DOORS))] = 3
  codes: Annotated[int, domain.Whole(2, 9)] = 3  # digits that a code may be
  table: domain.Seed = 0  # what the lasting codes are drawn by
  rooms: Annotated[int, domain.Whole(1, len(DOORS))] = 2  # a door in each
  retries: Annotated[int, domain.Whole(1, 9)] = 3  # reflections at most
  actor: Annotated[str, domain.OneOf(SERVICE, 'follower')] = (
    'follower'  # who plays; it follows notes and guesses without one
  )
  arm: Annotated[str, domain.OneOf('own', 'random', 'none')] = (
    'own'  # what the actor reads: notes, ones of random codes, or none
  )
  told: bool = False  # tasks ask to act on notes, or for a note of any code
  teach: bool = False  # the system text states the rules

  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def columns(self) -> tuple[str, ...]:
    """`at_first`, and `by_<n>`: solved by the n-th retry."""
    return ('at_first', *(f'by_{n + 1}' for n in range(self.retries)))

  @property
  def needs(self) -> tuple[str, ...]:
    return ('actor',) if self.actor == SERVICE else ()

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  @property
  def world(self) -> DoorCodes:
    """What the actor plays."""
    return DoorCodes(self.doors, self.codes, self.table, self.rooms, False)

  def name(self) -> str:
    return task_sampling.name('reflections', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the true notes; see `EnvFamily`.

    A told task that asks for a note has one of a random code.
    """
    draw = self._draw_told if self.told else self._draw
    return task_sampling.drawn(draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return task['door']

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    actor = services['actor'] if self.needs else follower(self.codes)
    return base.WithServices(self, lambda: ReflectionsEnv(self, actor))

  def env(self) -> 'ReflectionsEnv':
    if self.needs:
      raise base.missing_services(self)
    return ReflectionsEnv(self, follower(self.codes))

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    doors = rng.integers(self.doors, size=self.rooms)
    codes = self.world.lasting()
    return {
      'door': ''.join(DOORS[i] for i in doors),
      'case': int(rng.integers(CASES)),
      'code': ''.join(str(codes[i]) for i in doors),
      'notes': [],
      'seen': '',
    }

  def _draw_told(self, rng: np.random.Generator) -> dict[str, Any]:
    told = dataclasses.replace(self.world, told=True, rooms=1)
    task = told.draw(rng) | {'seen': ''}
    task['code'] = str(task['code'])
    if rng.random() < ACTING:
      return task
    doors = rng.integers(self.doors, size=rng.integers(1, self.rooms + 1))
    said = [(DOORS[i], str(rng.integers(1, self.codes + 1))) for i in doors]
    return task | {'seen': transcript(said), 'door': said[-1][0], 'notes': []}

  def _solve(
    self, task: dict[str, Any]
  ) -> tuple[dict[str, Any], tuple[str, ...]]:
    shown = task | {'case': ''}
    if task['seen'] or not self.told:
      notes = zip(task['door'], task['code'], strict=True)
      return shown, tuple(dict.fromkeys(f'{x}{y}' for x, y in notes))
    return shown, (task['code'],)


def follower(codes: int) -> Service:
  """Makes an actor that follows the note of its door, and guesses without."""

  def act(messages: Sequence[Message], *, seed: int) -> str:
    *notes, door = messages[-1].content.split('\n')
    told = {x[0]: x[1] for x in notes if _NOTE.fullmatch(x)}
    return told.get(door) or str(random.Random(seed).randint(1, codes))

  return act


def transcript(said: Sequence[tuple[str, str]]) -> str:
  """Writes an attempt, a door and what was said a line."""
  return '\n'.join(f'{door}{code}' for door, code in said)


def attempt(
  task: Mapping[str, Any],
  notes: Mapping[str, str],
  codes: int,
  ask: Callable[[str], str],
) -> tuple[Said, float]:
  """Has an actor play the rooms: -> what it said, and its return in [0, 1].

  Args:
    notes: codes by door; the actor reads all of them in every room
    ask: what the actor says to an observation
  """
  world, said = DoorCodesEnv(codes), list[tuple[str, str]]()
  world.reset({**task, 'notes': []}, 0)
  read, total, done = [f'{x}{y}' for x, y in notes.items()], 0.0, False
  while not done:
    door = task['door'][len(said)]
    seen = {'notes': read, 'case': '', 'door': door}
    answer = ask(door_codes.observation(seen))
    step = world.step(answer)
    said.append((door, spoken(answer).strip()[:1]))
    total, done = total + step.reward, step.done
  return tuple(said), total


class ReflectionsEnv:
  """Pays reflections by what the actor gains by them; see `HostEnv`."""

  def __init__(self, family: Reflections, actor: Service):
    self._family, self._actor = family, actor

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._task, self._random = task, random.Random(seed)
    self._notes: dict[str, str] = {}
    self._retry = 0
    if self._family.told:
      return task['seen'] or door_codes.observation(task)
    for i in range(FIRST):
      said, self._return = self._attempt()
      if i == 0:
        self._at_first = float(_solved(self._return))
      if not _solved(self._return):
        break
    return transcript(said)

  def step(self, message: str) -> Step:
    text = spoken(message).strip()
    note = _NOTE.fullmatch(text)
    if self._family.told:
      return self._told(text, note)
    self._retry += 1
    if note and self._family.arm != 'none':
      door, code = note.groups()
      if self._family.arm == 'random':
        code = str(self._random.randint(1, self._family.codes))
      self._notes.pop(door, None)  # the newest stands last
      self._notes[door] = code
    before, (said, self._return) = self._return, self._attempt()
    solved = _solved(self._return)
    last = self._retry == self._family.retries
    return Step(
      transcript(said),
      self._return - before,
      solved or last,
      float(solved),
      note is None,
      info=self._info(solved),
    )

  def close(self) -> None:
    """Closes nothing: nothing is held."""

  def _attempt(self) -> tuple[Said, float]:
    def ask(text: str) -> str:
      seed = self._random.getrandbits(31)
      return self._actor([Message('user', text)], seed=seed)

    return attempt(self._task, self._notes, self._family.codes, ask)

  def _info(self, solved: bool) -> dict[str, float]:
    """Returns info values whose sums over an episode are its own."""
    first = self._at_first if self._retry == 1 else 0.0
    by = enumerate(self._family.columns[1:], 1)
    return {'at_first': first} | {
      name: float(solved and n >= self._retry) for n, name in by
    }

  def _told(self, text: str, note: re.Match | None) -> Step:
    """Grades one of the two parts."""
    info = dict.fromkeys(self._family.columns, 0.0)
    task = self._task
    if task['seen']:
      right = note is not None and note[1] == task['door']
      return Step('', float(right), True, float(right), note is None, info=info)
    right, known = text == task['code'], text.isdecimal() and len(text) == 1
    return Step('', float(right), True, float(right), not known, info=info)


def _solved(total: float) -> bool:
  return total > 1 - 1e-6
