"""Connections that the gateway holds: so many that know the key, and strangers.

A connection is a stranger until a request on it has shown the key of the run.
When one more comes than there may be, the oldest stranger is cut off, so a
crowd that sends nothing, or no key, is in the way of itself alone: connections
that have shown the key stay, and a client that comes with it is let in.
"""

import asyncio
import resource
from typing import Protocol


class Connection(Protocol):
  """A client at the other end."""

  @property
  def transport(self) -> asyncio.WriteTransport: ...


class Connections:
  """At most `most` that have shown the key, and as many strangers."""

  def __init__(self, most: int):
    self._most = most
    self._strangers: dict[Connection, None] = {}  # the oldest first
    self._known: set[Connection] = set()

  def join(self, connection: Connection) -> None:
    """Takes a new one in; the oldest stranger may have to go."""
    self._strangers[connection] = None
    if len(self._strangers) > self._most:
      oldest = next(iter(self._strangers))
      del self._strangers[oldest]
      oldest.transport.abort()

  def admit(self, connection: Connection) -> bool:
    """Notes that it has shown the key; False: so many have that it must wait.

    One that was cut off meanwhile is not taken in again.
    """
    if connection in self._known:
      return True
    if connection not in self._strangers or len(self._known) >= self._most:
      return False
    del self._strangers[connection]
    self._known.add(connection)
    return True

  def leave(self, connection: Connection) -> None:
    """Forgets one that is closed."""
    self._strangers.pop(connection, None)
    self._known.discard(connection)


def affordable(most: int) -> int:
  """`most`, or fewer where the process may not open enough files.

  Known and strangers together take at most half of them: the rest is for the
  run, which writes checkpoints and starts programs.
  """
  files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  if files == resource.RLIM_INFINITY:
    return most
  return max(1, min(most, files // 4))
