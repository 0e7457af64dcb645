"""One port of this machine's loopback, in a network that has nothing else.

`listen` inside gives a socket to `serve` outside: a socket stays in the network
where it was made.
"""

import contextlib
import fcntl
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

_HOST = '127.0.0.1'
_SET_FLAGS, _UP = 0x8914, 1  # SIOCSIFFLAGS, IFF_UP
_MOST = 256  # connections at a time; others wait
_PIECE = 1 << 16  # bytes
_PAUSE = 0.05  # seconds until the system may have a file or a thread again


def listen(port: int) -> socket.socket:
  """Starts the loopback of a new network and listens there.

  Raises:
    OSError: the system does not allow it.
  """
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
    fcntl.ioctl(handle, _SET_FLAGS, struct.pack('16sH22x', b'lo', _UP))
  return socket.create_server((_HOST, port), backlog=_MOST)


def serve(listener: socket.socket, port: int) -> None:
  """Connects whatever comes to the port out here; never returns."""
  room = threading.BoundedSemaphore(_MOST)
  while True:
    room.acquire()
    if not _accept(listener, port, room):
      room.release()
      time.sleep(_PAUSE)


def _accept(
  listener: socket.socket, port: int, room: threading.BoundedSemaphore
) -> bool:
  """Connects the next; False: the system has no file or thread for it."""
  try:
    near = listener.accept()[0]
  except OSError:
    return False
  try:
    _start(_join, near, port, room)
  except RuntimeError:
    near.close()
    return False
  return True


def _join(
  near: socket.socket, port: int, room: threading.BoundedSemaphore
) -> None:
  try:
    with (
      near,
      contextlib.suppress(OSError, RuntimeError),
      socket.create_connection((_HOST, port)) as far,
    ):
      # A piece waits for no answer to the last one: Nagle's algorithm would
      # hold the second half of every request and reply for 40 ms.
      for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
      back = _start(_copy, far, near)
      _copy(near, far)
      back.join()
  finally:
    room.release()


def _start(call: Callable[..., None], *args: Any) -> threading.Thread:
  """Begins a call in a thread. Raises RuntimeError where there is none."""
  thread = threading.Thread(target=call, args=args, daemon=True)
  thread.start()
  return thread


def _copy(source: socket.socket, sink: socket.socket) -> None:
  """Passes on what comes, and at last that no more does."""
  with contextlib.suppress(OSError):
    while piece := source.recv(_PIECE):
      sink.sendall(piece)
  with contextlib.suppress(OSError):
    sink.shutdown(socket.SHUT_WR)
