"""Lines of bytes between the processes of a run.

    door = Door('127.0.0.1', meet)          # one process; meet(line), a thread
    line = dial(door.address, door.key)     # others

Both ends prove that they know one key, as `multiprocessing.connection` does
(HMAC over a challenge), and then exchange frames of bytes. Nothing here is
pickled. A peer whose machine is lost without a word is noticed after about 20
seconds by TCP itself. Imports little, since workers of a cluster wait for it.
"""

import contextlib
import functools
import multiprocessing
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing import connection

_HANDSHAKE = 10.0  # seconds to prove who one is
_DIAL = 30.0  # seconds to reach the trainer
# TCP asks a silent peer after 10 seconds, every 3 and 3 times.
_KEEPALIVE = {'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 3, 'TCP_KEEPCNT': 3}
_AT_ONCE = 256  # handshakes; others wait in the system's queue
_UNSENT = 20_000  # milliseconds until what was sent must have arrived


class UnknownPeerError(Exception):
  """The other end does not know the key."""


class OversizeError(Exception):
  """A frame is longer than it may be."""


class Line:
  """An open line; `cut` is for any thread, a direction for one at a time."""

  def __init__(self, given: socket.socket):
    """Takes over a connected socket."""
    given.setblocking(True)
    given.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    given.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in {**_KEEPALIVE, 'TCP_USER_TIMEOUT': _UNSENT}.items():
      if (option := vars(socket).get(name)) is not None:  # on this system
        given.setsockopt(socket.IPPROTO_TCP, option, value)
    self._socket = given
    self._connection = connection.Connection(os.dup(given.fileno()))

  def prove(self, key: bytes, *, first: bool) -> None:
    """Proves to each end that the other one knows the key.

    Args:
      key: shared secret
      first: this end asks first; exactly one of the two does

    Raises:
      UnknownPeerError: it does not, or did not answer in time.
    """
    steps = [connection.deliver_challenge, connection.answer_challenge]
    self.limit(_HANDSHAKE)
    try:
      for step in steps if first else reversed(steps):
        step(self._connection, key)
    except (
      multiprocessing.AuthenticationError,
      AssertionError,  # a challenge that is none
      EOFError,
      OSError,
    ) as error:
      raise UnknownPeerError(f'{type(error).__name__}: {error}') from error
    self.limit(0)

  def send(self, data: bytes) -> None:
    """Sends a frame; OSError: the line is lost."""
    self._connection.send_bytes(data)

  def ready(self, seconds: float = 0.0) -> bool:
    """Waits so long for a frame, or the end of the line; whether one came."""
    return self._connection.poll(seconds)

  def receive(self, most: int | None = None) -> bytes:
    """Waits for a frame.

    Args:
      most: bytes of it; None: any number

    Raises:
      EOFError, OSError: the line is lost.
      OversizeError: it has more bytes.
    """
    try:
      return self._connection.recv_bytes(most)
    except OSError:
      if not self._connection.closed and not self._connection.readable:
        raise OversizeError(f'a frame of more than {most} bytes') from None
      raise

  def cut(self) -> None:
    """Ends it at once; a thread that waits for a frame sees it lost."""
    with contextlib.suppress(OSError):
      self._socket.shutdown(socket.SHUT_RDWR)

  def close(self) -> None:
    """Cuts it and releases it."""
    self.cut()
    self._connection.close()
    self._socket.close()

  def limit(self, seconds: float) -> None:
    """Limits the wait for the next piece of a frame; 0: without a limit.

    A wait that is longer is an OSError.
    """
    whole = int(seconds)
    time_of = struct.pack('ll', whole, int((seconds - whole) * 1e6))
    for name in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
      self._socket.setsockopt(socket.SOL_SOCKET, name, time_of)

  def __enter__(self) -> 'Line':
    return self

  def __exit__(self, *_) -> None:
    self.close()


class Door:
  """Open port; callers that know its key are met, strangers are not."""

  def __init__(self, host: str, meet: Callable[[Line], bool]):
    """Opens a free port.

    Args:
      host: address of this machine; only connections to it are accepted
      meet: called with each line in a thread of its own; returns whether the
        line stays open. A lost line may end it.

    Raises:
      OSError: it is no address of this machine.
    """
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    self._socket = socket.create_server((host, 0), family=family, backlog=1024)
    self.address: tuple[str, int] = self._socket.getsockname()[:2]
    self.key = secrets.token_bytes(32)
    self._meet, self._closed = meet, False
    self._handshakes = threading.BoundedSemaphore(_AT_ONCE)
    threading.Thread(target=self._accept, daemon=True).start()

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
      answer = functools.partial(self._answer, given)
      threading.Thread(target=answer, daemon=True).start()

  def _answer(self, given: socket.socket) -> None:
    line, kept = Line(given), False
    try:
      try:
        line.prove(self.key, first=True)
      finally:
        self._handshakes.release()
      kept = self._meet(line)
    except (UnknownPeerError, OversizeError, EOFError, OSError):
      pass  # a stranger, or a line that was lost
    finally:
      if not kept:
        line.close()


def dial(address: tuple[str, int], key: bytes) -> Line:
  """Opens a line to a door.

  Args:
    address: its host and port
    key: shared secret

  Raises:
    OSError: it cannot be reached.
    UnknownPeerError: it has another key.
  """
  line = Line(socket.create_connection(address, timeout=_DIAL))
  try:
    line.prove(key, first=False)
  except UnknownPeerError:
    line.close()
    raise
  return line
