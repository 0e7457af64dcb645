"""Event streams: offer help when a user needs it, else stay silent.

  call
  wait
  file
  offer sort
  yes, note
  wait

The agent sees the user's actions, one event per turn, but not its needs. A need
follows from the last two events, by habits that all users share; an offer is
accepted if it names the need of that turn. After Proactive Agent (arXiv
2410.12361), whose events and labels come from people; here they are generated,
so the probability of every need is known.
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
from agentrl.text.grading import f1_of_counts
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
NONE = -1  # in place of a need or an offer: none


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
    """Yields tasks demonstrated by the optimal policy; see `EnvFamily`.

    Needs are random, so a demonstrated offer can be refused or a need missed.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the optimal policy's exact expected reward, given the events.

      V = (1/T) Σₜ max(0, maxₖ gain(pₜₖ)),  gain(p) = p - c (1 - p)

    with p the probability of need k and c the disturbance: the agent changes
    neither events nor needs, and answers carry no information about later ones.
    """
    gains = [self.gains(task['events'], t) for t in range(self.turns)]
    return sum(max(0.0, float(x.max())) for x in gains) / self.turns

  def gains(self, events: Sequence[int], turn: int) -> np.ndarray:
    """Returns turns × expected reward of offering each need: [needs]."""
    before = events[turn - 1] if turn else self.events
    p = habits(self)[before, events[turn]]
    return p - self.disturbance * (1 - p)

  def best_offer(self, events: Sequence[int], turn: int) -> int:
    """Returns the optimal offer, `NONE` where waiting is at least as good."""
    gains = self.gains(events, turn)
    return int(gains.argmax()) if gains.max() > 0 else NONE

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'EventStreamEnv':
    return EventStreamEnv(self)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    events = rng.integers(self.events, size=self.turns).tolist()
    before = [self.events, *events[:-1]]
    chances = habits(self)[before, events]  # [turns, needs]
    needs = (rng.random((self.turns, 1)) > chances.cumsum(1)).sum(1)
    return {
      'events': events,
      'needs': [NONE if k == self.needs else int(k) for k in needs],
    }

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    offers = (self.best_offer(task['events'], t) for t in range(self.turns))
    return task, tuple(write(offer) for offer in offers)


@functools.lru_cache(maxsize=16)
def habits(family: EventStream) -> np.ndarray:
  """Draws p(need | two events): [events + 1, events, needs] f64.

  The last row is for the start of a stream. A pair of events makes one need
  likely, or all of them equally unlikely.
  """
  rng = np.random.default_rng([family.table, 1])
  shape = family.events + 1, family.events
  likely = rng.random(shape) < family.needy
  kind = rng.integers(family.needs, size=shape)
  one = family.certain * np.eye(family.needs)[kind]
  any_one = np.full((*shape, family.needs), family.stray / family.needs)
  return np.where(likely[..., None], one, any_one)


def write(offer: int) -> str:
  """Renders an offer as a message."""
  return WAIT if offer == NONE else f'{OFFER} {NEEDS[offer]}'


def read(message: str, needs: int) -> int | None:
  """Parses an offer, `NONE` for waiting; None for neither or both."""
  words = re.findall(r'[a-z]+', spoken(message).lower())
  named = [k for k in range(needs) if NEEDS[k] in words]
  if OFFER in words and len(named) == 1 and WAIT not in words:
    return named[0]
  return NONE if WAIT in words and not named and OFFER not in words else None


class EventStreamEnv:
  """Environment that takes any message but an offer as waiting.

  An accepted offer earns 1 / turns, a refused one costs disturbance / turns.
  The score is the F₁ of the offers. `progress` is the expected reward of the
  action minus the optimal policy's, so at most 0. See `HostEnv`.
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
    offer = NONE if meant is None else meant
    offered, accepted = offer != NONE, offer == need != NONE
    gains = [*family.gains(events, t), 0.0]  # the last: of waiting
    self._counts += offered, accepted, need != NONE
    self._turn += 1
    done = self._turn == family.turns
    answer = LOST if meant is None else 'yes' if accepted else 'no'
    reply = [] if meant == NONE else [answer]
    following = [] if done else [EVENTS[events[self._turn]]]
    progress = float(gains[offer] - max(gains)) / family.turns
    return Step(
      '' if done else ', '.join([*reply, *following]),
      (accepted - family.disturbance * (offered - accepted)) / family.turns,
      done,
      f1_of_counts(*self._counts) if done else 0.0,
      invalid=meant is None,
      info={
        'offered': float(offered),
        'accepted': float(accepted),
        'needed': float(need != NONE),
        'progress': progress,
      },
    )

  def close(self) -> None:
    pass


def _taught(family: EventStream) -> str:
  """Renders the habits, one line per pair that makes a need likely."""
  chance, lines = habits(family), []
  for before, event in np.ndindex(chance.shape[:2]):
    kind = int(chance[before, event].argmax())
    if chance[before, event, kind] > family.stray:
      first = EVENTS[before] if before < family.events else 'nothing'
      p = chance[before, event, kind]
      lines.append(f'After {first}, {EVENTS[event]}: {NEEDS[kind]} {p:.0%}')
  return '\n'.join(lines)
