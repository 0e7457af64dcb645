"""Listener of the trainer, to which episodes in a cluster dial back."""

import contextlib
import secrets
import socket
import threading
import time
from concurrent.futures import Future, InvalidStateError

from agentrl.rollout.workers.line import Line, OversizeError, UnknownPeerError

_AT_ONCE = 256  # handshakes; others wait in the system's queue
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
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
      self._socket = socket.create_server(
        (host, 0), family=family, backlog=1024
      )
    except OSError as error:
      raise ValueError(
        'host.callback must be an address of this machine, got'
        f' {host!r} ({error})'
      ) from error
    self.address: tuple[str, int] = self._socket.getsockname()[:2]
    self.key = secrets.token_bytes(32)
    self.met = False  # an episode has arrived
    self._expected: dict[str, Future[Line]] = {}
    self._lock = threading.Lock()  # of the expected
    self._handshakes = threading.BoundedSemaphore(_AT_ONCE)
    self._closed = False
    threading.Thread(target=self._accept, daemon=True).start()

  def expect(self, name: str) -> Future[Line]:
    """Returns the line of an episode, once it has dialed; a name is for one."""
    with self._lock:
      return self._expected.setdefault(name, Future())

  def forget(self, name: str) -> None:
    """Turns an episode away that has not dialed yet."""
    with self._lock:
      self._expected.pop(name, None)

  def close(self) -> None:
    """Closes the port; lines stay open."""
    self._closed = True
    with contextlib.suppress(OSError):
      self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    self._socket.close()

  def _accept(self) -> None:
    while not self._closed:
      try:
        given, _ = self._socket.accept()
      except OSError:
        time.sleep(0.1)  # too many open files: some may be closed soon
        continue
      self._handshakes.acquire()
      threading.Thread(target=self._meet, args=(given,), daemon=True).start()

  def _meet(self, given: socket.socket) -> None:
    """Hands the line to whoever expects it, or turns a stranger away."""
    line = Line(given)
    try:
      line.prove(self.key, first=True)
      kept = self._hand_over(line.receive(_NAME).decode(), line)
    except (UnknownPeerError, OversizeError, EOFError, OSError, ValueError):
      kept = False
    finally:
      self._handshakes.release()
    if not kept:
      line.close()

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
