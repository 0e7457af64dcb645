"""Event streams: offer help when a user needs it, else stay silent.

  call
  wait
  file
  offer sort
  yes, note
  wait

The agent sees what the user does, one event a turn, and not what it needs. A
need follows from the last two events, by habits that all users share; an offer
is accepted if it names the need of that turn. After Proactive Agent (arXiv
2410.12361), whose events and labels are people's: those here are generated,
so that the chance of every need is known.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

EVENTS = ('call', 'file', 'note', 'page', 'chat', 'plan', 'list', 'mail')
NEEDS = ('sort', 'copy', 'send', 'find')
WAIT, OFFER = 'wait', 'offer'
LOST = 'what?'
RULES = (
  'A user works; each turn shows what it does. Offer help that it needs right'
  f' now, such as "{OFFER} sort", or say "{WAIT}". Offers that it does not need'
  ' disturb it.'
)
NOBODY = -1  # in place of a need or an offer: none


@dataclasses.dataclass(frozen=True)
class EventStream:
  """A task is a stream of events, and the need of each turn, hidden."""

  events: Annotated[int, domain.Whole(2, len(EVENTS))] = 4  # kinds of them
  needs: Annotated[int, domain.Whole(1, len(NEEDS))] = 2  # kinds of them
  turns: Annotated[int, domain.Whole(1, 64)] = 6  # of a stream
  needy: domain.Rate = 0.4  # share of pairs of events that make a need likely
  certain: domain.Rate = 0.9  # chance of the need of such a pair
  stray: domain.Rate = 0.05  # chance of a need, of any kind, after any other
  disturbance: domain.NotNegative = 0.5  # off the reward for a refused offer
  table: Annotated[int, domain.SEED] = 0  # seed of the habits
  teach: bool = False  # the system text states the rules and the habits

  columns: ClassVar[tuple[str, ...]] = (
    'offered',
    'accepted',
    'needed',
    'progress',
  )
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return f'{RULES}\n{_taught(self)}'.rstrip() if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('event_stream', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """What the optimal policy does; see `EnvFamily`.

    Needs come by chance, so that a demonstration can be refused or miss one.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Expected reward of the optimal policy, given the events; exact.

      V = (1/T) Σₜ max(0, maxₖ gain(pₜₖ)),  gain(p) = p - c (1 - p)

    for p the chance of need k and c the disturbance: what the agent does
    changes neither events nor needs, and an answer tells nothing of later ones.
    """
    gains = [self.gains(task['events'], t) for t in range(self.turns)]
    return sum(max(0.0, float(x.max())) for x in gains) / self.turns

  def gains(self, events: Sequence[int], turn: int) -> np.ndarray:
    """Expected reward, times the turns, of offering each need: [needs]."""
    before = events[turn - 1] if turn else self.events
    p = habits(self)[before, events[turn]]
    return p - self.disturbance * (1 - p)

  def best_offer(self, events: Sequence[int], turn: int) -> int:
    """The optimal policy's: a need, or `NOBODY` where waiting is as good."""
    gains = self.gains(events, turn)
    return int(gains.argmax()) if gains.max() > 0 else NOBODY

  def env(self) -> 'EventStreamEnv':
    return EventStreamEnv(self)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    events = rng.integers(self.events, size=self.turns).tolist()
    before = [self.events, *events[:-1]]
    chances = habits(self)[before, events]  # [turns, needs]
    needs = (rng.random((self.turns, 1)) > chances.cumsum(1)).sum(1)
    return {
      'events': events,
      'needs': [NOBODY if k == self.needs else int(k) for k in needs],
    }

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    offers = (self.best_offer(task['events'], t) for t in range(self.turns))
    return task, tuple(write(offer) for offer in offers)


@functools.lru_cache(maxsize=16)
def habits(family: EventStream) -> np.ndarray:
  """Chance of each need after two events: [events + 1, events, needs] f64.

  The last row is that of streams that begin. A pair makes one need likely, or
  all of them equally unlikely.
  """
  rng = np.random.default_rng([family.table, 1])
  shape = family.events + 1, family.events
  likely = rng.random(shape) < family.needy
  kind = rng.integers(family.needs, size=shape)
  one = family.certain * np.eye(family.needs)[kind]
  any_one = np.full((*shape, family.needs), family.stray / family.needs)
  return np.where(likely[..., None], one, any_one)


def write(offer: int) -> str:
  """The message of an offer."""
  return WAIT if offer == NOBODY else f'{OFFER} {NEEDS[offer]}'


def read(message: str, needs: int) -> int | None:
  """The offer of a message, `NOBODY` for waiting; None for neither or both."""
  words = re.findall(r'[a-z]+', spoken(message).lower())
  named = [k for k in range(needs) if NEEDS[k] in words]
  if OFFER in words and len(named) == 1 and WAIT not in words:
    return named[0]
  return NOBODY if WAIT in words and not named and OFFER not in words else None


def f1(offered: float, accepted: float, needed: float) -> float:
  """2 accepted / (offered + needed): harmonic mean of precision and recall.

  1 where nothing was needed and nothing offered.
  """
  total = offered + needed
  return 2 * accepted / total if total else 1.0


class EventStreamEnv:
  """A message that is neither an offer nor waiting is taken as waiting.

  An accepted offer is rewarded by 1/turns, a refused one costs disturbance /
  turns. The score is the F₁ of the offers. `progress` is the expected reward of
  what was done less that of the optimal policy, so at most 0. See `HostEnv`.
  """

  def __init__(self, family: EventStream):
    self._family = family

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # what comes by chance is part of the task
    self._task, self._turn = task, 0
    self._counts = np.zeros(3)  # offered, accepted, needed
    return EVENTS[task['events'][0]]

  def step(self, message: str) -> Step:
    family, t = self._family, self._turn
    events, need = self._task['events'], self._task['needs'][t]
    meant = read(message, family.needs)
    offer = NOBODY if meant is None else meant
    offered, accepted = offer != NOBODY, offer == need != NOBODY
    gains = [*family.gains(events, t), 0.0]  # the last: of waiting
    self._counts += offered, accepted, need != NOBODY
    self._turn += 1
    done = self._turn == family.turns
    answer = LOST if meant is None else 'yes' if accepted else 'no'
    reply = [] if meant == NOBODY else [answer]
    following = [] if done else [EVENTS[events[self._turn]]]
    progress = float(gains[offer] - max(gains)) / family.turns
    return Step(
      '' if done else ', '.join([*reply, *following]),
      (accepted - family.disturbance * (offered - accepted)) / family.turns,
      done,
      f1(*self._counts) if done else 0.0,
      invalid=meant is None,
      info={
        'offered': float(offered),
        'accepted': float(accepted),
        'needed': float(need != NOBODY),
        'progress': progress,
      },
    )

  def close(self) -> None:
    pass


def _taught(family: EventStream) -> str:
  """The habits as text, a line for each pair that makes a need likely."""
  chance, lines = habits(family), []
  for before, event in np.ndindex(chance.shape[:2]):
    kind = int(chance[before, event].argmax())
    if chance[before, event, kind] > family.stray:
      first = EVENTS[before] if before < family.events else 'nothing'
      p = chance[before, event, kind]
      lines.append(f'After {first}, {EVENTS[event]}: {NEEDS[kind]} {p:.0%}')
  return '\n'.join(lines)
