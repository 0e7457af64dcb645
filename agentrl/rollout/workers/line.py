"""A line of bytes between the trainer and an episode in a cluster.

Both ends prove that they know one key, as `multiprocessing.connection` does
(HMAC over a challenge), and then exchange frames of bytes. Nothing here is
pickled. A peer whose machine is lost without a word is noticed after about 20
seconds by TCP itself. Imports little, since workers of a cluster wait for it.
"""

import contextlib
import multiprocessing
import os
import socket
import struct
from multiprocessing import connection

_HANDSHAKE = 10  # seconds to prove who one is
_DIAL = 30.0  # seconds to reach the trainer
# TCP asks a silent peer after 10 seconds, every 3 and 3 times.
_KEEPALIVE = {'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 3, 'TCP_KEEPCNT': 3}
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
    self._limit(_HANDSHAKE)
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
    self._limit(0)

  def send(self, data: bytes) -> None:
    """Sends a frame; OSError: the line is lost."""
    self._connection.send_bytes(data)

  def receive(self, most: int) -> bytes:
    """Waits for a frame.

    Args:
      most: bytes of it

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
    """Ends it at once; whoever waits for a frame sees it lost."""
    with contextlib.suppress(OSError):
      self._socket.shutdown(socket.SHUT_RDWR)

  def close(self) -> None:
    """Cuts it and releases it."""
    self.cut()
    self._connection.close()
    self._socket.close()

  def _limit(self, seconds: int) -> None:
    """Limits the wait for one piece of a frame; 0: without a limit."""
    for name in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
      self._socket.setsockopt(
        socket.SOL_SOCKET, name, struct.pack('ll', seconds, 0)
      )


def dial(address: tuple[str, int], key: bytes) -> Line:
  """Opens a line to a listener.

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
