"""Lines with a key, and callers that lack it, fall silent or lie."""

import contextlib
import os
import socket
import threading

import pytest

from agentrl.runtime.line import (
  Door,
  Line,
  OversizeError,
  UnknownPeerError,
  dial,
)
from tests import errors


@pytest.fixture
def door():
  """A door behind which what comes is sent back, reversed."""

  def meet(line):
    while True:
      line.send(line.receive(1 << 22)[::-1])

  opened = Door('127.0.0.1', meet)
  yield opened
  opened.close()


def answers(line) -> bool:
  line.send(b'ab')
  return line.receive() == b'ba'


def lost(line) -> bool:
  with pytest.raises((EOFError, OSError)):
    line.receive(100)
  return True


def test_frames_of_any_size_come_back(door):
  with dial(door.address, door.key) as line:
    for data in (b'', b'abc', os.urandom(3_000_000)):
      line.send(data)
      assert line.receive() == data[::-1]
    assert not line.ready()


def test_a_frame_that_is_too_long(door):
  with dial(door.address, door.key) as line:
    line.send(b'x' * 1001)
    with errors.raises(OversizeError, '1000'):
      line.receive(1000)
  with dial(door.address, door.key) as line:
    with contextlib.suppress(OSError):
      line.send(bytes(1 << 23))  # cuts this line, and no other
    assert lost(line)
  with dial(door.address, door.key) as line:
    assert answers(line)


def test_who_has_another_key_is_not_met(door):
  with pytest.raises(UnknownPeerError):
    dial(door.address, b'another key')
  with dial(door.address, door.key) as line:
    assert answers(line)


@pytest.mark.parametrize('says', [b'', b'GET / HTTP/1.1\r\n\r\n', b'\xff' * 64])
def test_strangers_delay_no_one(door, says):
  strangers = [socket.create_connection(door.address) for _ in range(20)]
  for stranger in strangers:
    stranger.sendall(says)
  with dial(door.address, door.key) as line:
    assert answers(line)
  for stranger in strangers:
    stranger.close()


def test_a_door_is_not_believed_without_the_key():
  """Else whoever has its port could say what to do."""
  server = socket.create_server(('127.0.0.1', 0))

  def answer():
    given, _ = server.accept()
    with Line(given) as line, pytest.raises(UnknownPeerError):
      line.prove(b'guessed', first=True)

  thread = threading.Thread(target=answer)
  thread.start()
  with pytest.raises(UnknownPeerError):
    dial(server.getsockname(), b'the key')
  thread.join()
  server.close()


def test_a_silent_one_is_lost_after_its_time():
  over = threading.Event()

  def meet(line):
    line.limit(0.1)
    with contextlib.suppress(OSError):
      line.receive()
    over.set()
    return False

  door = Door('127.0.0.1', meet)
  with dial(door.address, door.key) as line:
    assert over.wait(10)
    assert lost(line)
  door.close()


def test_a_cut_wakes_who_waits(door):
  line = dial(door.address, door.key)
  threading.Timer(0.05, line.cut).start()
  assert lost(line)
  line.close()


def test_a_line_that_is_kept_stays_open():
  kept = []
  door = Door('127.0.0.1', lambda line: kept.append(line) or True)
  with dial(door.address, door.key) as line:
    line.send(b'here')
    while not kept:
      threading.Event().wait(0.01)
    assert kept[0].receive() == b'here'
    door.close()
    kept[0].send(b'still')
    assert line.receive() == b'still'
    kept[0].close()
    assert lost(line)


def test_a_closed_door_answers_no_one(door):
  door.close()
  with pytest.raises(OSError):
    dial(door.address, door.key)
