"""Connections with a key, and callers that lack it, fall silent or lie."""

import os
import socket
import stat
import threading

import pytest

from agentrl.runtime import dial
from tests import errors


@pytest.fixture
def door():
  served = []

  def echo(connection):
    served.append(connection)
    while True:
      connection.send_bytes(connection.recv_bytes()[::-1])

  with dial.Door('127.0.0.1', echo) as opened:
    yield opened, served


def test_frames_of_any_size_come_back(door):
  with dial.dial(door[0].address) as connection:
    for data in (b'', b'abc', os.urandom(3_000_000)):
      connection.send_bytes(data)
      assert connection.recv_bytes() == data[::-1]


def test_who_has_another_key_is_not_served(door):
  opened, served = door
  with pytest.raises(OSError, match='key'):
    dial.dial(opened.address._replace(key='00'))
  assert not served
  with dial.dial(opened.address) as connection:
    connection.send_bytes(b'ab')
    assert connection.recv_bytes() == b'ba'


@pytest.mark.parametrize('says', [b'', b'GET / HTTP/1.1\r\n\r\n', b'\xff' * 64])
def test_strangers_delay_no_one(door, says):
  opened, served = door
  strangers = [socket.create_connection(opened.address[:2]) for _ in range(20)]
  for stranger in strangers:
    stranger.sendall(says)
  with dial.dial(opened.address) as connection:
    connection.send_bytes(b'ab')
    assert connection.recv_bytes() == b'ba'
  assert len(served) == 1
  for stranger in strangers:
    stranger.close()


def test_a_silent_one_is_lost_after_its_time():
  lost = threading.Event()

  def serve(connection):
    dial.limit(connection, 0.1)
    try:
      connection.recv_bytes()
    except OSError:
      lost.set()

  with dial.Door('127.0.0.1', serve) as door, dial.dial(door.address):
    assert lost.wait(10)


def test_a_closed_door_answers_no_one(door):
  opened, _ = door
  opened.__exit__()
  with pytest.raises(OSError):
    dial.dial(opened.address)


def test_an_address_is_for_its_user_alone(tmp_path):
  place, address = tmp_path / 'in' / 'learner.json', dial.Address('h', 1, 'k')
  assert dial.read(place) is None
  for _ in range(2):
    dial.write(place, address)
    assert dial.read(place) == address
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
  for damaged in ('', '{', '[]', '{"host": "h"}'):
    place.write_text(damaged)
    assert dial.read(place) is None


def test_a_host_of_another_machine_is_refused():
  with errors.raises(ValueError, '203.0.113.7'):
    dial.Door('203.0.113.7', lambda connection: None)
