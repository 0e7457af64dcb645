"""Host games of several seats: a referee asks each of them in turn.

A `Referee` knows the whole game. It asks one seat at a time, by name, and
what it says to a seat is all that the seat ever reads: in training every seat
is a conversation of its own (rollout/host_seats.py). Where seats move at once,
it asks them one after another and tells nobody what the others said before all
have answered.

  reset(task)        Ruling('buyer', 'pool 2 1')     -> the buyer's conversation
  step('take 1 0')   Ruling('seller', 'take 1 0?')   -> the seller's
  step('yes')        Ruling('', reward={...})        the match is over

A family of such games implements `SeatedFamily`, and its `env` returns
`RefereedEnv(referee, seat_names)`, through which rulings reach the rollout from
any worker. Imports only the standard library: children of other interpreters
read it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentrl.env.base import EnvFamily, Step


class Ruling(NamedTuple):
  """What a referee says after a message, and at the beginning."""

  seat: str  # that is asked next; '': the match is over
  text: str = ''  # all that is new to it
  role: str = 'user'  # of `text` in a chat: 'user' or 'tool'
  invalid: bool = False  # the message was not understood
  # By seat: what it has earned since the last ruling, counted to the last turn
  # it had. What a seat earns before its first turn counts to that one.
  reward: Mapping[str, float] = {}
  # At the end, by seat: its own score in [0, 1]; 0 where it is left out.
  score: Mapping[str, float] = {}
  # By seat, then by the family's columns: of the last turn it had.
  info: Mapping[str, Mapping[str, float]] = {}


class Referee(Protocol):
  """One table; plays one match after another, each begun by `reset`.

  A function of task, seed and messages, as a `HostEnv` is. An exception ends
  the match for all its seats, and discards the referee.
  """

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    """Begins a match: -> whom it asks first."""

  def step(self, message: str) -> Ruling:
    """Hears the seat that was asked; not called once the match is over."""

  def close(self) -> None:
    """Releases processes, connections and folders."""


@runtime_checkable
class SeatedFamily(EnvFamily, Protocol):
  """Family of games that several seats play, each by messages of its own.

  The demonstration of a task is the messages of a match in the order in which
  its referee asks for them.
  """

  @property
  def seat_names(self) -> tuple[str, ...]:
    """Two names or more, the index is the seat's number; (): one seat plays.

    A family whose settings say that there is one seat is as any other.
    """

  def seat_system(self, seat: str) -> str:
    """Returns the seat's own system text, behind the family's; '': none."""


def names(family: EnvFamily) -> tuple[str, ...]:
  """Returns the names of the seats that messages play; (): there is one."""
  return family.seat_names if isinstance(family, SeatedFamily) else ()


class RefereedEnv:
  """A referee as a `HostEnv`, whose observations are rulings in JSON."""

  def __init__(self, referee: Referee, seats: Sequence[str]):
    """Keeps the referee and the names of its seats, in their order."""
    self._referee, self._seats = referee, tuple(seats)

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    return encode(self._referee.reset(task, seed), self._seats)

  def step(self, message: str) -> Step:
    ruling = self._referee.step(message)
    return Step(
      encode(ruling, self._seats),
      done=not ruling.seat,
      invalid=bool(ruling.invalid),
    )

  def close(self) -> None:
    self._referee.close()


def encode(ruling: Ruling, seats: Sequence[str]) -> str:
  """Writes a ruling as JSON, seats by number.

  Raises:
    ValueError: it names a seat that there is not.
  """
  by_seat = {'reward': ruling.reward, 'score': ruling.score}
  named = {*ruling.reward, *ruling.score, *ruling.info, ruling.seat} - {''}
  if unknown := sorted(named - {*seats}):
    raise ValueError(
      f'a ruling must name seats among {tuple(seats)}, got {unknown}'
    )
  numbers = {
    name: [float(of.get(seat, 0.0)) for seat in seats]
    for name, of in by_seat.items()
  }
  info = [
    {name: float(x) for name, x in ruling.info.get(seat, {}).items()}
    for seat in seats
  ]
  seat = seats.index(ruling.seat) if ruling.seat else None
  told = {'seat': seat, 'text': ruling.text, 'role': ruling.role}
  return json.dumps(told | numbers | {'info': info}, ensure_ascii=False)
