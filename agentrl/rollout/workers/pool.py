"""Rooms: where host environments live, one in each.

    with rooms(family, 64) as them:
      future = them[0].reset(task, seed)  # Future[str]
      ...
      future = them[0].step('go left')    # Future[Reply]

Each room has a thread of its own, which waits for its environment; whoever
asks waits for none. An environment is made at the first reset and serves one
task after another until it fails or is ended.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol

from agentrl.env import base
from agentrl.env.base import Family, Reply
from agentrl.rollout.workers.process import Child, room_for, sendable
from agentrl.rollout.workers.ray_backend import actors
from agentrl.rollout.workers.replies import CHARACTERS, EnvFault, Local

PLACES = (*base.PLACES, 'ray')
_GRACE = 3.0  # seconds for environments to end by themselves


class Place(Protocol):
  """An environment, wherever it is; all but `kill` block, in one thread."""

  def reset(self, task: Mapping[str, Any], seed: int) -> str: ...

  def step(self, message: str) -> Reply: ...

  def close(self) -> None:
    """Ends the environment, politely if it still listens; raises nothing."""

  def kill(self) -> bool:
    """Stops it at once, from any thread; False: it cannot be stopped."""


class Room:
  """One environment, and one call at a time.

  A future holds what the environment answered, or an `EnvFault`; or, if the
  user has to mend something, a ValueError with the sentence that says so.
  """

  def __init__(self, make: Callable[[], Place], told: Callable[[], None]):
    """`told` is called whenever a future is done, in whatever thread."""
    self._make, self._told = make, told
    self._life: _Life | None = None
    self._asked: Future = Future()
    self._asked.set_result(None)
    self.gone: list[_Life] = []  # ended, and perhaps still about to leave

  def reset(self, task: Mapping[str, Any], seed: int) -> Future[str]:
    """Begins a task: -> the first observation.

    Raises:
      ValueError: the room has not answered what it was asked before.
    """
    if self._life is None:
      self._life = _Life(self._make())
    place = self._life.place
    return self._ask(lambda: place.reset(task, seed))

  def step(self, message: str) -> Future[Reply]:
    """One turn.

    Raises:
      ValueError: no task is under way, or the last call is not answered.
    """
    if self._life is None:
      raise ValueError('no task is under way in this room; call reset first')
    place = self._life.place
    return self._ask(lambda: place.step(message))

  def end(self) -> None:
    """Kills what is there, at once, whatever it is doing; what was asked for
    is then an `EnvFault` of kind time. The next reset makes a new one.

    A thread cannot be killed: one that hangs is left behind, and counted.
    """
    if (life := self._left()) is not None:
      busy = not self._asked.done()
      _settle(self._asked, EnvFault('time', 'it was ended before it answered'))
      life.kill(busy)

  def close(self) -> None:
    """Lets an idle environment close itself; ends a busy one."""
    if self._asked.done():
      self._left()
    else:
      self.end()

  def _left(self) -> '_Life | None':
    """The room is empty then."""
    life, self._life = self._life, None
    if life is not None:
      life.calls.put(None)
      self.gone = [x for x in (*self.gone, life) if x.thread.is_alive()]
    return life

  def _ask(self, call: Callable[[], Any]) -> Future:
    if not self._asked.done():
      raise ValueError('the room has not answered yet; wait, or end it')
    self._asked = Future()
    self._asked.add_done_callback(lambda _: self._told())
    self._life.calls.put((call, self._asked))
    return self._asked


class _Life:
  """The thread of a room, until the room is ended.

  A daemon: the program would wait at exit for a pool thread that hangs.
  """

  def __init__(self, place: Place):
    self.place = place
    self.calls: queue.SimpleQueue = queue.SimpleQueue()
    self.stuck = False  # in a call that cannot be stopped
    self.thread = threading.Thread(target=self._live, daemon=True)
    self.thread.start()

  def kill(self, busy: bool = True) -> None:
    """One that is not busy has only to hear that it may leave."""
    self.stuck = not self.place.kill() and busy

  def _live(self) -> None:
    while (asked := self.calls.get()) is not None:
      call, future = asked
      try:
        out = call()
      except BaseException as error:
        out = error
      _settle(future, out)
      del asked, call, future, out  # nothing is kept while it waits
    self.place.close()


class Rooms:
  """A fixed number of rooms; `rooms` makes them."""

  def __init__(self, make: Callable[[], Place], count: int):
    # The index of a room, once for each of its futures when that is done.
    self.answered: queue.SimpleQueue[int] = queue.SimpleQueue()
    self._rooms = [
      Room(make, lambda i=i: self.answered.put(i)) for i in range(count)
    ]

  def __len__(self) -> int:
    return len(self._rooms)

  def __getitem__(self, i: int) -> Room:
    return self._rooms[i]

  def __enter__(self) -> 'Rooms':
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  def left(self) -> int:
    """Threads that hang in an environment which was ended."""
    return sum(life.stuck and life.thread.is_alive() for life in self._gone())

  def close(self) -> None:
    """Ends all environments, side by side; no process of theirs is left."""
    for room in self._rooms:
      room.close()
    end = time.monotonic() + _GRACE
    for life in self._gone():
      if not life.stuck:
        life.thread.join(max(0.0, end - time.monotonic()))
    for life in self._gone():
      if life.thread.is_alive() and not life.stuck:
        life.kill()
        life.thread.join(_GRACE if not life.stuck else 0.0)

  def _gone(self) -> list[_Life]:
    return [life for room in self._rooms for life in room.gone]


def rooms(
  family: Family,
  count: int,
  *,
  place: str | None = None,
  characters: int = CHARACTERS,
) -> Rooms:
  """Rooms for environments of a family; nothing is started yet.

  Args:
    family: makes the environments.
    count: rooms, that is, trajectories under way at the same time.
    place: one of `PLACES`; the family's if none is given. Environments in a
      'thread' share this process. A 'process' is a fresh interpreter for each
      room, which can be killed with all that it started. With 'ray' it is an
      actor in a cluster.
    characters: most of an observation; more is a fault.

  Raises:
    ValueError: an argument that cannot be, a family that cannot be sent to
      another process, more rooms than this one may have open files for, or
      Ray is not installed.
  """
  place = family.place if place is None else place
  if place not in PLACES:
    raise ValueError(f'place={place!r} is unknown; choose from {PLACES}')
  for name, value in (('count', count), ('characters', characters)):
    if value < 1:
      raise ValueError(f'{name}={value} leaves no room; use 1 or more')
  if place == 'thread':
    return Rooms(lambda: Local(family, characters), count)
  if place == 'ray':
    return Rooms(actors(family, characters), count)
  sendable(family)
  room_for(count)
  return Rooms(lambda: Child(family, characters), count)


def _settle(future: Future, out: Any) -> None:
  """Only the first to settle it is heard: the answer, or `end`."""
  with contextlib.suppress(InvalidStateError):
    if isinstance(out, BaseException):
      future.set_exception(out)
    else:
      future.set_result(out)
