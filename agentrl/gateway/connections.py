"""Connections that the gateway holds: authenticated ones, and the others.

A connection is unauthenticated until a request on it has shown the key of the
run. When one more of them comes than there may be, the oldest is closed, so a
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
  """At most `most` that have shown the key, and as many others."""

  def __init__(self, most: int):
    self._most = most
    self._others: dict[Connection, None] = {}  # the oldest first
    self._authenticated: set[Connection] = set()

  def join(self, connection: Connection) -> None:
    """Takes a new one in; the oldest of the others may have to go."""
    self._others[connection] = None
    if len(self._others) > self._most:
      oldest = next(iter(self._others))
      del self._others[oldest]
      oldest.transport.abort()

  def admit(self, connection: Connection) -> bool:
    """Notes that it has shown the key; False: so many have that it must wait.

    One that was cut off meanwhile is not taken in again.
    """
    if connection in self._authenticated:
      return True
    if connection not in self._others or len(self._authenticated) >= self._most:
      return False
    del self._others[connection]
    self._authenticated.add(connection)
    return True

  def leave(self, connection: Connection) -> None:
    """Forgets one that is closed."""
    self._others.pop(connection, None)
    self._authenticated.discard(connection)


def affordable(most: int) -> int:
  """`most`, or fewer where the process may not open enough files.

  Both kinds together take at most half of them: the rest is for the
  run, which writes checkpoints and starts programs.
  """
  files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  if files == resource.RLIM_INFINITY:
    return most
  return max(1, min(most, files // 4))
