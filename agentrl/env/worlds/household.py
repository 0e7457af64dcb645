"""Household: bring a few things into the state that is wanted.

  want
  lamp on, mug den
  lamp state off, mug place hall, door state shut
  lamp on
  lamp state on
  mug den
  nothing new                the door is shut
  door open
  door state open
  mug den
  mug place den
  done

A state is facts `object attribute value`; an answer shows what has changed, and
sometimes a radio that nobody asked for. What is wanted is no fact yet: it has
two words. Things are carried through an open door alone, so that it may have
to be opened although it is to be shut in the end.

Whatever was changed could have been wanted (env/goals.py): facts that hold at
the end of a trajectory, at least one of which did not hold at its start.
"""

import copy
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

SWITCHES = ('lamp', 'fan', 'oven', 'heater')
ITEMS = ('mug', 'key', 'book', 'ball')
PLACES = ('hall', 'den', 'attic', 'yard')
STATE, PLACE = 'state', 'place'
DOOR, OPEN, SHUT = 'door', 'open', 'shut'
OBJECTS = (*SWITCHES, *ITEMS, DOOR)
WANT, DONE, NOTHING, LOST = 'want', 'done', 'nothing new', 'what?'
RULES = (
  'Bring things into the state that is wanted: say an object and its new value,'
  f' such as "lamp on", "mug den" or "{DOOR} {OPEN}", one in each message, then'
  f' "{DONE}". Things are carried through an open door alone.'
)
Facts = dict[tuple[str, str], str]  # (object, attribute) -> value


@dataclasses.dataclass(frozen=True)
class Household:
  """A task is its facts and the goal facts, lists of three words."""

  switches: Annotated[int, domain.Whole(1, len(SWITCHES))] = 2
  things: Annotated[int, domain.Whole(1, len(ITEMS))] = 1  # to be carried
  noise: domain.Chance = 0.3  # of an answer, that the radio is in it
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('progress',)
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('household', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks with a shortest solution; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, solved, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns 1: every task has a solution."""
    del task
    return 1.0

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'HouseholdEnv':
    return HouseholdEnv(self.noise)

  def goal(self, observations: Sequence[str], rng: np.random.Generator) -> str:
    """Writes a goal with as many facts as a task's; see `StatesGoals`."""
    first, last = seen(observations[:1]), seen(observations)
    new = [x for x in first if last[x] != first[x]]
    if not new:
      return ''
    sure = new[int(rng.integers(len(new)))]
    rest = [x for x in first if x != sure]
    more = int(rng.integers(1, len(rest) + 1))
    kept = {sure, *(rest[i] for i in rng.permutation(len(rest))[:more])}
    return ask({x: last[x] for x in first if x in kept})

  def fulfils(self, observations: Sequence[str], goal: str) -> bool:
    """Returns whether what was seen last is as wanted; see `StatesGoals`."""
    last, wanted = seen(observations), [x.split() for x in goal.split(', ')]
    held = {(name, value) for (name, _), value in last.items()}
    return all((name, value) in held for name, value in wanted)

  def restated(self, observation: str, goal: str) -> str:
    """Puts a goal behind 'want'; see `StatesGoals`."""
    return re.sub(rf'(?<={WANT}\n).*', goal, observation, count=1)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any] | None:
    names = self._names(rng)
    now, wanted = ([*map(str, _values(names, rng))] for _ in range(2))
    order = rng.permutation(len(names)).tolist()
    kept = order[: int(rng.integers(2, len(names) + 1))]
    task = {
      'facts': [[*names[i], now[i]] for i in range(len(names))],
      'goal': [[*names[i], wanted[i]] for i in sorted(kept)],
    }
    return task if distance(facts(task['facts']), facts(task['goal'])) else None

  def _names(self, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Lists what the house of a task has: objects and their attributes."""
    del rng  # all houses are alike
    switches = [(x, STATE) for x in SWITCHES[: self.switches]]
    things = [(x, PLACE) for x in ITEMS[: self.things]]
    return [*switches, *things, (DOOR, STATE)]


def _values(
  names: Sequence[tuple[str, str]], rng: np.random.Generator
) -> Iterator[str]:
  for name, attribute in names:
    yield rng.choice(values(name, attribute))


def values(name: str, attribute: str) -> tuple[str, ...]:
  """Returns the values that an attribute of an object may have."""
  if attribute == PLACE:
    return PLACES
  return (OPEN, SHUT) if name == DOOR else ('on', 'off')


def facts(triples: Sequence[Sequence[str]]) -> Facts:
  """Converts lists of three words."""
  return {(name, attribute): value for name, attribute, value in triples}


def write(now: Mapping[tuple[str, str], str]) -> str:
  """Renders facts as the agent reads them."""
  return ', '.join(f'{a} {b} {value}' for (a, b), value in now.items())


def ask(goal: Mapping[tuple[str, str], str]) -> str:
  """Renders what is wanted."""
  return ', '.join(f'{name} {value}' for (name, _), value in goal.items())


def seen(observations: Sequence[str]) -> Facts:
  """Reads what was seen last of every fact that the first observation has."""
  of = rf'\b({"|".join(OBJECTS)}) ({STATE}|{PLACE}) (\w+)'
  first, *later = (re.findall(of, text) for text in observations)
  known = facts(first)
  new = facts([x for told in later for x in told])
  return known | {x: value for x, value in new.items() if x in known}


def distance(now: Facts, goal: Facts) -> int:
  """Returns the fewest changes until the goal holds.

  What the house does not have stays wrong.
  """
  wrong = [name for name, value in goal.items() if now.get(name) != value]
  carried = sum(attribute == PLACE for _, attribute in wrong)
  door = DOOR, STATE
  if not carried:
    return len(wrong)
  opened = now[door] == SHUT
  shut = goal.get(door) == SHUT
  return len(wrong) - (door in wrong) + opened + shut


def solved(task: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
  """Opens the door if need be, changes what is wrong, the door last."""
  now, goal = facts(task['facts']), facts(task['goal'])
  wrong = [name for name, value in goal.items() if now[name] != value]
  door, out = (DOOR, STATE), []
  carried = any(attribute == PLACE for _, attribute in wrong)
  if carried and now[door] == SHUT:
    out.append(f'{DOOR} {OPEN}')
    now[door] = OPEN
  out += [f'{x[0]} {goal[x]}' for x in wrong if x != door]
  if door in goal and goal[door] != now[door]:
    out.append(f'{DOOR} {goal[door]}')
  return task, (*out, DONE)


class HouseholdEnv:
  """Environment that ends with `done`; see `HostEnv`.

  The score is 1 if all of the goal holds then. With d changes left of D at the
  start, `progress` is the fall of d / (D + 1), to 0 with the score: over an
  ended trajectory it adds up to the score.
  """

  def __init__(self, noise: float):
    self._noise = noise

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._now, self._goal = facts(task['facts']), facts(task['goal'])
    self._first = distance(self._now, self._goal)
    self._rng = np.random.default_rng(seed)
    return f'{WANT}\n{ask(self._goal)}\n{write(self._now)}'

  def step(self, message: str) -> Step:
    before = self._potential()
    words = re.findall('[a-z]+', spoken(message).lower())
    done, name = words == [DONE], _named(self._now, words)
    text = '' if done else LOST if name is None else self._set(name, words[1])
    score = float(done and distance(self._now, self._goal) == 0)
    after = score if done else self._potential()
    return Step(
      text,
      score,
      done,
      score,
      invalid=name is None and not done,
      info={'progress': after - before},
    )

  def _set(self, name: tuple[str, str], value: str) -> str:
    """Changes a fact if it can be: -> what the agent sees of it."""
    changed = {}
    if self._now[name] != value and self._can(name):
      changed = {name: value}
    self._now |= changed
    parts = [write(changed) or NOTHING]
    if self._rng.random() < self._noise:
      radio = ('on', 'off')[int(self._rng.integers(2))]
      parts.append(f'radio {STATE} {radio}')
    return ', '.join(parts)

  def _can(self, name: tuple[str, str]) -> bool:
    return name[1] != PLACE or self._now[DOOR, STATE] == OPEN

  def fork(self) -> 'HouseholdEnv':
    other = copy.copy(self)
    other._now = dict(self._now)
    other._rng = copy.deepcopy(self._rng)  # what its radio will say, too
    return other

  def close(self) -> None:
    pass

  def _potential(self) -> float:
    left = distance(self._now, self._goal)
    return (self._first - left) / (self._first + 1)


def _named(now: Facts, words: Sequence[str]) -> tuple[str, str] | None:
  """Returns what a message is to change; None if it is not understood."""
  for name, attribute in now:
    if len(words) == 2 and words[0] == name:
      return (name, attribute) if words[1] in values(name, attribute) else None
  return None
