"""Connections between the processes of a run, which share a key.

    with Door('127.0.0.1', serve) as door:         # one process
      ...                                          # serve(connection), a thread
    connection = dial(door.address)                # others

Both sides prove that they know the key before a byte is read, and frames are
bytes. Who connects without it, says nothing or falls silent costs a thread
until its time is over, and nothing else.
"""

import contextlib
import functools
import json
import multiprocessing
import multiprocessing.connection as mp
import os
import pathlib
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from agentrl.runtime import text_files, threads

SILENCE = 60.0  # seconds without a byte after which the other side is lost
_GREETING = 10.0  # seconds in which a caller proves that it has the key
_WAITING = 64  # callers that have not proved it yet; others are turned away

Connection = mp.Connection


class Address(NamedTuple):
  """Where a door is, and the key to it."""

  host: str
  port: int
  key: str


class Door:
  """Socket that answers each caller in a thread of its own."""

  def __init__(self, host: str, serve: Callable[[Connection], None]):
    """Opens a free port.

    Args:
      host: address to listen on, of this machine
      serve: talks with a caller that has the key; an EOFError or OSError, as
        of a caller that is lost, ends it
    Raises:
      ValueError: the host is no address of this machine.
    """
    try:
      self._socket = socket.create_server((host, 0))
    except OSError as error:
      raise ValueError(
        f'cannot listen on {host!r} ({error.strerror or error}); name an'
        ' address of this machine'
      ) from error
    port = self._socket.getsockname()[1]
    self.address = Address(host, port, secrets.token_hex(32))
    self._serve, self._open = serve, True
    self._greeted = threading.Semaphore(_WAITING)
    threads.start(self._accept)

  def __enter__(self) -> 'Door':
    return self

  def __exit__(self, *_) -> None:
    self._open = False
    with contextlib.suppress(OSError):  # wakes the thread that accepts
      self._socket.shutdown(socket.SHUT_RDWR)
    self._socket.close()

  def _accept(self) -> None:
    while self._open:
      try:
        caller, _ = self._socket.accept()
      except OSError:  # it was closed, or the caller is gone already
        continue
      if not self._greeted.acquire(blocking=False):
        caller.close()
        continue
      threads.start(functools.partial(self._answer, caller))

  def _answer(self, caller: socket.socket) -> None:
    with _framed(caller) as connection:
      try:
        _prove(connection, self.address.key.encode())
      finally:
        self._greeted.release()
      self._serve(connection)


def dial(address: Address) -> Connection:
  """Calls a door.

  Raises:
    OSError: nothing answers there, or it has another key.
  """
  connection = _framed(socket.create_connection(address[:2], timeout=_GREETING))
  try:
    _prove(connection, address.key.encode(), calls=True)
  except BaseException:
    connection.close()
    raise
  return connection


def write(path: str | pathlib.Path, address: Address) -> None:
  """Writes an address for those who may read this user's files alone."""
  place = pathlib.Path(path)
  place.parent.mkdir(parents=True, exist_ok=True)
  part = place.with_name(f'.{place.name}.{os.getpid()}')
  part.unlink(missing_ok=True)
  handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
  with open(handle, 'w') as f:
    json.dump(address._asdict(), f)
  part.replace(place)


def read(path: str | pathlib.Path) -> Address | None:
  """Reads an address; None where there is none, or not yet."""
  try:
    match text_files.read_json(pathlib.Path(path)):
      case {'host': str(host), 'port': int(port), 'key': str(key)}:
        return Address(host, port, key)
  except (OSError, ValueError):
    pass
  return None


def _framed(caller: socket.socket) -> Connection:
  """Makes a connection of a socket that notices a lost peer."""
  caller.settimeout(None)
  caller.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  beats = {'TCP_KEEPIDLE': 30, 'TCP_KEEPINTVL': 10, 'TCP_KEEPCNT': 3}
  for name in beats.keys() & vars(socket).keys():  # Linux has them
    caller.setsockopt(socket.IPPROTO_TCP, vars(socket)[name], beats[name])
  return Connection(caller.detach())


def _prove(connection: Connection, key: bytes, *, calls: bool = False) -> None:
  """Exchanges proofs of the key, the caller's first.

  Raises:
    OSError: the other side has another key or took too long.
  """
  limit(connection, _GREETING)
  ask, answer = mp.deliver_challenge, mp.answer_challenge
  try:
    for prove in (answer, ask) if calls else (ask, answer):
      prove(connection, key)
  except (
    multiprocessing.AuthenticationError,
    EOFError,
    AssertionError,
  ) as error:
    raise OSError('the other side has another key') from error
  limit(connection, 0.0)


def limit(connection: Connection, seconds: float) -> None:
  """Limits how long a read or write waits for the next byte; 0: not at all."""
  time = struct.pack('ll', int(seconds), int(seconds % 1 * 1e6))
  with socket.socket(fileno=connection.fileno()) as held:
    try:
      for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        held.setsockopt(socket.SOL_SOCKET, option, time)
    finally:
      held.detach()  # the connection's own
