"""A relay passes bytes both ways, and that one side has ended."""

import contextlib
import socket
import threading

import pytest

from agentrl.tool.sandbox.native import relay


@pytest.fixture
def near():
  """Where the relay listens, and the server behind it."""
  server = socket.create_server(('127.0.0.1', 0))
  listener = socket.create_server(('127.0.0.1', 0))
  port = server.getsockname()[1]
  threading.Thread(
    target=relay.serve, args=(listener, port), daemon=True
  ).start()
  yield listener.getsockname(), server
  server.close()


def whole(handle: socket.socket) -> bytes:
  return b''.join(iter(lambda: handle.recv(1 << 16), b''))


def test_all_is_passed_on_both_ways(near):
  address, server = near
  sent = bytes(range(256)) * 20_000
  got = []

  def answer():
    with server.accept()[0] as far:
      got.append(whole(far))
      far.sendall(got[0][::-1])

  thread = threading.Thread(target=answer, daemon=True)
  thread.start()
  with socket.create_connection(address, timeout=30) as handle:
    handle.sendall(sent)
    handle.shutdown(socket.SHUT_WR)
    assert whole(handle) == sent[::-1]
  thread.join()
  assert got == [sent]


def test_where_nothing_answers_the_connection_ends(near):
  address, server = near
  server.close()
  with socket.create_connection(address, timeout=30) as handle:
    assert whole(handle) == b''


def test_there_is_room_again_once_others_have_ended(near):
  """More in all than may be there at a time, of which some break off."""
  address, server = near

  def answer():
    with contextlib.suppress(OSError):
      while True:
        server.accept()[0].close()

  threading.Thread(target=answer, daemon=True).start()
  for _ in range(relay._MOST + 50):
    with (
      contextlib.suppress(ConnectionError),
      socket.create_connection(address, timeout=30) as handle,
    ):
      handle.sendall(b'x')
      whole(handle)
