"""Listener of the trainer, to which episodes in a cluster dial back."""

import contextlib
import threading
from concurrent.futures import Future, InvalidStateError

from agentrl.runtime.line import Door, Line

_NAME = 64  # bytes of a name at most


class Listener:
  """Open port that gives each expected episode its line; strangers get none."""

  def __init__(self, host: str):
    """Opens a free port.

    Args:
      host: address of this machine; only connections to it are accepted

    Raises:
      ValueError: it is not one.
    """
    self.met = False  # an episode has arrived
    self._expected: dict[str, Future[Line]] = {}
    self._lock = threading.Lock()  # of the expected
    try:
      door = Door(host, self._meet)
    except OSError as error:
      raise ValueError(
        'host.callback must be an address of this machine, got'
        f' {host!r} ({error})'
      ) from error
    self.address, self.key, self.close = door.address, door.key, door.close

  def expect(self, name: str) -> Future[Line]:
    """Returns the line of an episode, once it has dialed; a name is for one."""
    with self._lock:
      return self._expected.setdefault(name, Future())

  def forget(self, name: str) -> None:
    """Turns an episode away that has not dialed yet."""
    with self._lock:
      self._expected.pop(name, None)

  def _meet(self, line: Line) -> bool:
    """Hands the line to the caller that expects it, or refuses it."""
    try:
      name = line.receive(_NAME).decode()
    except ValueError:
      return False
    return self._hand_over(name, line)

  def _hand_over(self, name: str, line: Line) -> bool:
    with self._lock:
      expected = self._expected.get(name)
    if expected is None:
      return False
    self.met = True
    with contextlib.suppress(InvalidStateError):
      expected.set_result(line)
      return True
    # It has dialed before, so its cluster plays it again after a loss, which
    # is for the trainer to do.
    if expected.exception() is None:
      expected.result().cut()
    return False
