"""Connections of the gateway, authenticated or not.

A connection is unauthenticated until a request on it presents the key of the
run. When too many of these are open, the oldest is closed, so a flood without
the key only displaces itself: authenticated connections stay, and new clients
with the key are let in.
"""

import asyncio
import resource
from typing import Protocol


class Connection(Protocol):
  """Connection to a client."""

  @property
  def transport(self) -> asyncio.WriteTransport: ...


class Connections:
  """At most `most` authenticated connections, and `most` others."""

  def __init__(self, most: int):
    self._most = most
    self._others: dict[Connection, None] = {}  # the oldest first
    self._authenticated: set[Connection] = set()

  def join(self, connection: Connection) -> None:
    """Adds a connection; may close the oldest unauthenticated one."""
    self._others[connection] = None
    if len(self._others) > self._most:
      oldest = next(iter(self._others))
      del self._others[oldest]
      oldest.transport.abort()

  def admit(self, connection: Connection) -> bool:
    """Marks it as authenticated; False: the limit is reached, it must wait.

    A connection closed in the meantime stays closed.
    """
    if connection in self._authenticated:
      return True
    if connection not in self._others or len(self._authenticated) >= self._most:
      return False
    del self._others[connection]
    self._authenticated.add(connection)
    return True

  def leave(self, connection: Connection) -> None:
    """Removes a closed connection."""
    self._others.pop(connection, None)
    self._authenticated.discard(connection)


def affordable(most: int) -> int:
  """Limits `most` by the number of files that the process may open.

  Both kinds together take at most half of that; the rest is for the run, which
  writes checkpoints and starts programs.
  """
  files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  if files == resource.RLIM_INFINITY:
    return most
  return max(1, min(most, files // 4))
