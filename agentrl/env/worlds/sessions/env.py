"""Sessions: keep notes of facts that change, and answer from them.

  Bako's tea is red
  add Bako's tea is red
  Lomi's ink is old
  add Lomi's ink is old
  Bako's tea is tan
  1 Bako's tea is red
  update 1 Bako's tea is tan
  Bako's tea?
  1 Bako's tea is tan
  tan

Facts about invented people are told over sessions; later ones repeat, change or
retract earlier ones. The environment holds a bounded bank of notes
(sessions/bank.py) and shows those that are most like the new fact. With
rollout.history 'turn' nothing else is remembered. As in Memory-R1, 2508.19828,
manager and answerer are two roles: either can be the policy, a script or a
service.
"""

import dataclasses
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.worlds.invented_names import invented_names
from agentrl.env.worlds.sessions import bank as banks
from agentrl.env.worlds.sessions import managers
from agentrl.env.worlds.sessions.bank import GONE, Bank
from agentrl.service.base import Service
from agentrl.text.message import Message
from agentrl.text.tool_calls.base import spoken

THINGS = ('tea', 'ink', 'rope', 'salt', 'wax', 'lamp', 'nail', 'soap')
VALUES = ('red', 'big', 'old', 'tan', 'wet', 'hot', 'new', 'odd')
POLICY, SERVICE = 'policy', 'service'
OWN, SHUFFLED, NOTHING = 'own', 'shuffled', 'none'
RULES = (
  'You hear a fact per session and remember only what is in a bank of notes.'
  ' Numbered notes follow the fact. Change the bank by one operation per line:'
  ' "add TEXT", "update NUMBER TEXT", "delete NUMBER" or "noop". What is gone'
  ' has no value any more. Answer a question in a word, "none" where no value'
  ' is known.'
)
Fact = tuple[str, str]  # the subject, such as "Bako's tea", and its value


@dataclasses.dataclass(frozen=True)
class Sessions:
  """A task is what is told, a fact per session, and what is asked at the end.

  No more subjects have a value at a time than the bank has places, so that one
  who keeps a note for each can answer everything.
  """

  sessions: Annotated[int, domain.Whole(1, 64)] = 8  # facts that are told
  people: Annotated[int, domain.Whole(1, 32)] = 3  # of whom they are told
  things: Annotated[int, domain.Whole(1, len(THINGS))] = 2  # that they have
  bank: Annotated[int, domain.Whole(0, 99)] = 3  # notes at most; 0: no memory
  shown: Annotated[int, domain.Whole(1, 99)] = 2  # notes shown per turn at most
  changes: domain.Chance = 0.25  # that a session changes a value
  retractions: domain.Chance = 0.15  # that it retracts one
  repeats: domain.Chance = 0.2  # that it repeats one
  asked: Annotated[int, domain.Whole(1, 32)] = 2  # questions at most
  manager: Annotated[str, domain.OneOf(POLICY, SERVICE, *managers.MANAGERS)] = (
    POLICY  # who writes notes
  )
  answerer: Annotated[str, domain.OneOf(POLICY, SERVICE, 'exact')] = (
    POLICY  # who answers; 'exact' reads the notes by a rule
  )
  # What the agent is shown of the bank: its notes, its notes with other values
  # in them, or nothing. Placebos: the bank itself is the same.
  reads: Annotated[str, domain.OneOf(OWN, SHUFFLED, NOTHING)] = OWN
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('asks', 'legal', 'useful', 'kept')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    total = self.changes + self.retractions + self.repeats
    if total > 1:
      raise ValueError(
        f'changes + retractions + repeats must be at most 1, got {total}; lower'
        ' one of them'
      )
    if POLICY not in (self.manager, self.answerer):
      raise ValueError(
        f"manager or answerer must be 'policy', got {self.manager!r} and"
        f' {self.answerer!r}, which leave the agent nothing to do'
      )

  @property
  def needs(self) -> tuple[str, ...]:
    roles = {'manager': self.manager, 'answerer': self.answerer}
    return tuple(x for x, who in roles.items() if who == SERVICE)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('sessions', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the expert; see `EnvFamily`.

    With another scripted manager the demonstration answers what the notes say,
    which may be wrong.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    return base.WithServices(self, lambda: SessionsEnv(self, services))

  def env(self) -> 'SessionsEnv':
    if self.needs:
      raise base.missing_services(self)
    return SessionsEnv(self, {})

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    people = list(invented_names(rng, self.people, syllables=2))
    subjects = [f"{x}'s {y}" for x in people for y in THINGS[: self.things]]
    held: dict[str, str] = {}
    told = [self._fact(rng, subjects, held) for _ in range(self.sessions)]
    heard = list(dict.fromkeys(subject for subject, _ in told))
    asked = rng.permutation(heard)[: self.asked].tolist()
    return {'told': [list(x) for x in told], 'asked': asked}

  def _fact(
    self, rng: np.random.Generator, subjects: list[str], held: dict[str, str]
  ) -> Fact:
    """Draws what a session tells, and brings `held` up to date."""
    chance = rng.random()
    change, retract = self.changes, self.changes + self.retractions
    free = [x for x in subjects if x not in held]
    # Without a bank facts are told all the same.
    room = free if len(held) < max(1, self.bank) else []
    if not held or (room and chance >= retract + self.repeats):
      subject, values = str(rng.choice(room)), list(VALUES)
    else:
      subject = str(rng.choice(list(held)))
      values = [held[subject]]
      if chance < change:
        values = [x for x in VALUES if x != held[subject]]
      elif chance < retract:
        values = [GONE]
    value = str(rng.choice(values))
    held[subject] = value
    if value == GONE:
      del held[subject]
    return subject, value

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    manager = managers.MANAGERS.get(self.manager, managers.expert)
    facts = [fact_text(x) for x in task['told']]
    said, bank = managers.play(manager, facts, self.bank, self.shown)
    answers = [
      banks.read(retrieved(bank, subject, self.shown), subject)
      for subject in task['asked']
    ]
    return task, (
      *(said if self.manager == POLICY else ()),
      *(answers if self.answerer == POLICY else ()),
    )


def fact_text(fact: Sequence[str]) -> str:
  """Writes a fact as it is told."""
  subject, value = fact
  return f'{subject} is {value}'


def truth(told: Sequence[Sequence[str]], subject: str) -> str:
  """Returns the value that a subject has after what was told."""
  values = [value for name, value in told if name == subject]
  last = values[-1] if values else GONE
  return banks.UNKNOWN if last == GONE else last


def stated(
  bank: Bank, told: Sequence[Sequence[str]], subjects: Sequence[str]
) -> set[str]:
  """Returns the subjects whose value after `told` is what the bank states."""
  notes = banks.notes(bank)
  return {x for x in subjects if banks.read(notes, x) == truth(told, x)}


def retrieved(bank: Bank, subject: str, shown: int) -> list[banks.Note]:
  """Returns the notes that are most like a subject, by their numbers."""
  chosen = set(banks.similar(bank, subject, shown))
  return [note for i, note in enumerate(bank, 1) if note and i in chosen]


def above_notes(text: str, bank: Bank, numbers: Sequence[int]) -> str:
  """Writes a text above some notes of a bank, as agents and services see it."""
  chosen = ((i, bank[i - 1]) for i in numbers)
  return '\n'.join([text, *(f'{i} {x.text}' for i, x in chosen if x)])


def _other_values(seed: int) -> dict[str, str]:
  """Maps every value to another one, one to one; drawn by the seed."""
  order = random.Random(seed).sample(VALUES, len(VALUES))
  return dict(zip(order, [*order[1:], order[0]], strict=True))


def words(message: str) -> list[str]:
  """Splits an answer into words, in lower case."""
  return re.findall(r'\w+', spoken(message).lower())


class SessionsEnv:
  """Environment that carries out operations and counts right answers.

  A right answer earns 1 / asked, and the score is their share; where another
  one answers, the last session earns it all. See `HostEnv`.
  """

  def __init__(self, family: Sessions, services: Mapping[str, Service]):
    """Stores the settings; services: all that the family needs."""
    self._family, self._services = family, services

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._told, self._asked = task['told'], task['asked']
    self._random = random.Random(seed)
    self._others = _other_values(seed)
    self._bank = banks.empty(self._family.bank)
    self._turn, self._right = 0, 0.0
    if self._family.manager != POLICY:
      facts = [fact_text(x) for x in self._told]
      size, shown = self._family.bank, self._family.shown
      _, self._bank = managers.play(self._manager(), facts, size, shown)
      self._turn = len(facts)
    return self._says()

  def step(self, message: str) -> Step:
    return self._session(message) if self._telling else self._answer(message)

  def close(self) -> None:
    pass

  @property
  def _telling(self) -> bool:
    return self._turn < len(self._told)

  def _session(self, message: str) -> Step:
    legal, useful = self._manage(message)
    info = {'asks': 0.0, 'legal': float(legal), 'useful': float(useful)}
    if self._telling or self._family.answerer == POLICY:
      return self._step(0.0, False, not legal, info)
    for subject in self._asked:
      self._right += self._is_right(subject, self._other_answer(subject))
    return self._step(self._right / len(self._asked), True, not legal, info)

  def _answer(self, message: str) -> Step:
    subject = self._asked[self._turn - len(self._told)]
    self._turn += 1
    right, word = self._is_right(subject, message), words(message)
    self._right += right
    legal = len(word) == 1
    info = {'asks': 1.0, 'legal': float(legal), 'useful': float(right)}
    done = self._turn == len(self._told) + len(self._asked)
    return self._step(right / len(self._asked), done, not legal, info)

  def _step(
    self, reward: float, done: bool, invalid: bool, info: dict[str, float]
  ) -> Step:
    told = self._told[: self._turn]
    kept = len(stated(self._bank, told, self._asked)) / len(self._asked)
    score = self._right / len(self._asked) if done else 0.0
    text = '' if done else self._says()
    return Step(text, reward, done, score, invalid, info={**info, 'kept': kept})

  def _manage(self, message: str) -> tuple[bool, bool]:
    """Plays a session: whether its operations were legal, and useful.

    They are useful if the bank states the new fact then, and still states all
    it stated before.
    """
    told = self._told[: self._turn + 1]
    subject = told[-1][0]
    others = {x for x, _ in told} - {subject}
    before = stated(self._bank, told, list(others))
    operations = banks.parse(message)
    changed = banks.apply(self._bank, operations, self._turn)
    self._turn += 1
    if not operations or changed is None:
      return False, False
    self._bank = changed
    return True, stated(changed, told, [*before, subject]) >= {*before, subject}

  def _says(self) -> str:
    """Returns the observation of this turn."""
    if self._telling:
      subject, _ = fact = self._told[self._turn]
      return self._above_notes(fact_text(fact), subject, self._read())
    subject = self._asked[self._turn - len(self._told)]
    return self._above_notes(f'{subject}?', subject, self._read())

  def _read(self) -> Bank:
    """Returns the bank as the agent is shown it."""
    if self._family.reads == NOTHING:
      return ()
    if self._family.reads == SHUFFLED:
      return banks.translated(self._bank, self._others)
    return self._bank

  def _above_notes(self, text: str, subject: str, bank: Bank) -> str:
    chosen = banks.similar(bank, subject, self._family.shown)
    return above_notes(text, bank, chosen)

  def _is_right(self, subject: str, answer: str) -> bool:
    return words(answer) == [truth(self._told, subject)]

  def _other_answer(self, subject: str) -> str:
    if self._family.answerer == SERVICE:
      text = self._above_notes(f'{subject}?', subject, self._bank)
      return self._ask('answerer', text)
    notes = retrieved(self._bank, subject, self._family.shown)
    return banks.read(notes, subject)

  def _manager(self) -> managers.Manager:
    """Returns who writes the notes where it is not the agent."""
    if self._family.manager == SERVICE:
      return lambda *seen: self._ask('manager', above_notes(*seen))
    return managers.MANAGERS[self._family.manager]

  def _ask(self, role: str, text: str) -> str:
    """Returns what a service says to what the agent would see."""
    system = [Message('system', RULES)] if self._family.teach else []
    messages = [*system, Message('user', text)]
    return self._services[role](messages, seed=self._random.getrandbits(31))
