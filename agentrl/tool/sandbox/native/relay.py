"""One port of this machine's loopback, in a network that has nothing else.

`listen` inside gives a socket to `serve` outside: a socket stays in the network
where it was made.
"""

import contextlib
import fcntl
import socket
import struct
import threading

_HOST = '127.0.0.1'
_SET_FLAGS, _UP = 0x8914, 1  # SIOCSIFFLAGS, IFF_UP
_MOST = 256  # connections at a time; others wait
_PIECE = 1 << 16  # bytes


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
    near = listener.accept()[0]
    threading.Thread(target=_join, args=(near, port, room), daemon=True).start()


def _join(
  near: socket.socket, port: int, room: threading.BoundedSemaphore
) -> None:
  with (
    near,
    contextlib.suppress(OSError),
    socket.create_connection((_HOST, port)) as far,
  ):
    back = threading.Thread(target=_copy, args=(far, near), daemon=True)
    back.start()
    _copy(near, far)
    back.join()
  room.release()


def _copy(source: socket.socket, sink: socket.socket) -> None:
  """Passes on what comes, and at last that no more does."""
  with contextlib.suppress(OSError):
    while piece := source.recv(_PIECE):
      sink.sendall(piece)
  with contextlib.suppress(OSError):
    sink.shutdown(socket.SHUT_WR)
