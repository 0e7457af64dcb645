"""Door codes: what opens a door is told by no task, but by experience.

Every door has a code, the same in all tasks. A task asks for one of them, and
has a number that means nothing and tells tasks apart:

  417 b
  3

A first attempt can only guess. A note of an earlier one helps, if the policy
reads notes. So that a small model can learn to, there is a told kind of task,
whose codes are its own and stand in it, of some doors, as notes would:

  Notes:
  b3
  a1
  417 b
  3

With several rooms a door stands in each, and only the right code leads to the
next: what the second room asks for is seen by those who have left the first. If
tasks have from `fewest` to `rooms` rooms, a task of several is a skill that is
made of its doors.

A model that is trained on told tasks alone guesses evenly where a door has no
note, knows none of the lasting codes, and follows notes that are wrong as well.
"""

import dataclasses
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.message import Message
from agentrl.text.tool_calls.base import spoken

HEADING = 'Notes:'
DOORS = 'abcdefgh'
CASES = 1000  # numbers that tell tasks of a door apart
RULES = (
  'Every door, a letter, has a code, a digit from 1 to {codes}, which notes may'
  ' tell, such as b3. Say the code of the door that stands last.'
)
LOST = 'Say one digit.'
_ENTRY = re.compile(r'^(\d+)\. ([a-h])(\d)$', re.MULTILINE)
_ATTEMPT = re.compile(
  r'^Attempt \d+ \((solved|not solved)\):$((?:(?!^Attempt ).)*)',
  re.MULTILINE | re.DOTALL,
)
_SURE = 32  # readers, after whom an instruction without failures is true
_CODES = re.compile(r'([a-h])(\d)')
_INSTRUCTION = re.compile(  # as operations.earning writes it
  r'^\d+\. ((?:[a-h]\d )+)\(earned (\S+), read (\S+)\)$', re.MULTILINE
)
_SAID = re.compile(r'(?:^|[ \n])([a-h])\s*\n\[assistant\] *(\d?)')


@dataclasses.dataclass(frozen=True)
class DoorCodes:
  """A task is doors, a number, the doors' codes, and notes if it is told."""

  doors: Annotated[int, domain.Whole(1, len(DOORS))] = 3
  codes: Annotated[int, domain.Whole(2, 9)] = 3  # digits that a code may be
  table: domain.Seed = 0  # what the lasting codes are drawn by
  rooms: Annotated[int, domain.Whole(1, len(DOORS))] = 1  # a door in each
  numbered: bool = True  # a number stands before the first door
  told: bool = False  # tasks have codes of their own, and notes of some
  teach: bool = False  # the system text states the rules
  fewest: Annotated[int, domain.Whole(0, most='rooms')] = (
    0  # rooms of a task, at least; 0: all have `rooms`
  )

  columns: ClassVar[tuple[str, ...]] = ('noted',)
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES.format(codes=self.codes) if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('door_codes', self)

  def lasting(self) -> list[int]:
    """Draws the code of every door, the same in all tasks that are not told.

    No code is of two doors while there are others.
    """
    each = np.resize(np.arange(1, self.codes + 1), self.doors)
    return np.random.default_rng(self.table).permutation(each).tolist()

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the code; see `EnvFamily`."""
    return task_sampling.drawn(self.draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return observation(task)

  def skill(self, task: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the doors of a task: to open each is a basic skill."""
    return tuple(task['door'])

  def env(self) -> 'DoorCodesEnv':
    return DoorCodesEnv(self.codes)

  def _solve(
    self, task: dict[str, Any]
  ) -> tuple[dict[str, Any], tuple[str, ...]]:
    shown = task if self.numbered else task | {'case': ''}
    return shown, tuple(str(task['code']))

  def draw(self, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a task."""
    rooms = self._draw_rooms(rng)
    door, case = [int(rng.integers(self.doors))], int(rng.integers(CASES))
    door += rng.integers(self.doors, size=rooms - 1).tolist()
    codes, notes = self.lasting(), list[str]()
    if self.told:
      codes = rng.integers(1, self.codes + 1, self.doors).tolist()
      some = rng.permutation(self.doors)[: rng.integers(self.doors + 1)]
      notes = [note(i, codes[i]) for i in some]
    return {
      'door': ''.join(DOORS[i] for i in door),
      'case': case,
      'code': int(''.join(str(codes[i]) for i in door)),
      'notes': notes,
    }

  def _draw_rooms(self, rng: np.random.Generator) -> int:
    """Draws how many rooms a task has: every list of doors is as likely."""
    if not self.fewest:
      return self.rooms
    count = np.arange(self.fewest, self.rooms + 1)
    lists = float(self.doors) ** count
    return int(rng.choice(count, p=lists / lists.sum()))


def note(door: int, code: int) -> str:
  """Writes what a note says of a door: 'b3'."""
  return f'{DOORS[door]}{code}'


def observation(task: Mapping[str, Any]) -> str:
  """Writes what an agent sees first: the notes of a told task, the door."""
  notes = [HEADING, *task['notes']] if task['notes'] else []
  return '\n'.join([*notes, f'{task["case"]} {task["door"][0]}'.strip()])


class DoorCodesEnv:
  """Grades a digit in every room; see `HostEnv`."""

  def __init__(self, codes: int):
    self._codes = codes

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._task, self._room = task, 0
    return observation(task)

  def step(self, message: str) -> Step:
    task, said = self._task, spoken(message).strip()
    doors, room = task['door'], self._room
    named = any(x.startswith(doors[room]) for x in task['notes'])
    info = {'noted': float(named)}
    if said not in map(str, range(1, self._codes + 1)):
      return Step(LOST, done=True, invalid=True, info=info)
    if said != str(task['code'])[room]:
      return Step('', done=True, info=info)
    reward = 1 / len(doors)
    if room == len(doors) - 1:
      return Step('', reward, True, 1.0, info=info)
    self._room += 1
    return Step(doors[self._room], reward, info=info)

  def close(self) -> None:
    """Closes nothing: nothing is held."""


def lesson(messages: Sequence[Message], *, seed: int) -> str:
  """Writes what a group's attempts taught, as a service: codes of doors.

  A code is right that led to another room or solved the attempt. If no entry is
  of the door it is added; one that says something else is rewritten, and
  further ones of the door are deleted.

  Args:
    messages: a question of `recall.operations`
  """
  del seed  # nothing is random
  return _told(messages[-1].content, 0)


def shuffled_lesson(messages: Sequence[Message], *, seed: int) -> str:
  """Writes the same notes, each of another door: a and b change places, ..."""
  del seed  # nothing is random
  return _told(messages[-1].content, 1)


def _told(text: str, partner: int) -> str:
  """Returns the operations of a question; partner: 1, of the door beside."""
  operations: list[dict[str, Any]] = []
  for own, code in sorted(_right(text).items()):
    door = DOORS[DOORS.index(own) ^ partner]
    entries = [(int(i), said) for i, of, said in _ENTRY.findall(text)
               if of == door]  # fmt: skip
    if not entries:
      operations.append({'op': 'ADD', 'text': f'{door}{code}'})
    elif entries[0][1] != code:
      change = {'op': 'UPDATE', 'entry': entries[0][0]}
      operations.append(change | {'text': f'{door}{code}'})
    operations += [{'op': 'DELETE', 'entry': i} for i, _ in entries[1:]]
  return json.dumps(operations or [{'op': 'NOOP'}])


def rewrite(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes another instruction, as a service: a line with a code per door.

  The best that was read is changed at one door, to a code that was not seen to
  fail there and an instruction that is not there yet: at a door where some
  attempt failed, or at any. If none failed, and many read it, nothing is
  proposed.

  Args:
    messages: a question of `recall.operations` about a batch
  """
  return _proposed(messages[-1].content, seed, blind=False)


def blind_rewrite(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes codes that are drawn, whatever was read and failed: a control."""
  return _proposed(messages[-1].content, seed, blind=True)


def _proposed(text: str, seed: int, *, blind: bool) -> str:
  """Returns the operation of a question about a batch."""
  found = [x for x in _INSTRUCTION.findall(text) if float(x[2]) > 0]
  failed: dict[str, set[str]] = {}
  for how, attempt in _ATTEMPT.findall(text):
    said = _SAID.findall(attempt)
    if how != 'solved' and said:
      door, code = said[-1]
      failed.setdefault(door, set()).add(code)
  nothing = json.dumps([{'op': 'NOOP'}])
  if not found:
    return nothing
  rng, (listed, _, read) = random.Random(seed), max(found, key=_earned)
  best = dict(_CODES.findall(listed))
  said_or_read = re.findall(r'\d', f'{best} {failed}')
  most = max(3, *map(int, said_or_read))
  every = [str(i) for i in range(1, most + 1)]
  if blind:
    best = {door: rng.choice(every) for door in best}
  else:
    known = [dict(_CODES.findall(x)) for x, _, _ in _INSTRUCTION.findall(text)]
    changes = [
      (door, code)
      for door in best
      for code in every
      if code not in failed.get(door, ()) and best | {door: code} not in known
    ]
    changes = [x for x in changes if x[0] in failed] or changes
    if not changes or (not failed and float(read) >= _SURE):
      return nothing
    best.update([rng.choice(changes)])
  lines = '\n'.join(f'{door}{code}' for door, code in best.items())
  return json.dumps([{'op': 'ADD', 'text': lines}])


def _earned(found: tuple[str, str, str]) -> float:
  return float(found[1])


def _right(text: str) -> dict[str, str]:
  """Returns codes that opened a door in the attempts of a question."""
  right = {}
  for how, attempt in _ATTEMPT.findall(text):
    said = _SAID.findall(attempt)
    right |= dict(said if how == 'solved' else said[:-1])
  return right
