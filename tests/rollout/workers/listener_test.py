"""Episodes get their lines; strangers are turned away and harm nothing."""

import socket

import pytest

from agentrl.rollout.workers.listener import Listener
from agentrl.runtime.line import (
  Line,
  UnknownPeerError,
  dial,
)
from tests import errors
from tests.rollout.workers import rooms


@pytest.fixture
def listener():
  it = Listener('127.0.0.1')
  yield it
  it.close()


def arrived(listener: Listener, name: str) -> tuple[Line, Line]:
  """Both ends of a line: of the episode, of the trainer."""
  expected = listener.expect(name)
  episode = dial(listener.address, listener.key)
  episode.send(name.encode())
  return episode, expected.result(rooms.WAIT)


def lost(line: Line) -> bool:
  with pytest.raises((EOFError, OSError)):
    line.receive(100)
  return True


def test_strangers_are_turned_away(listener):
  """One with another key, garbage, silence and names nobody expects."""
  silent = socket.create_connection(listener.address)
  garbage = socket.create_connection(listener.address)
  garbage.sendall(b'GET / HTTP/1.1\r\n\r\n' * 100)
  expected = listener.expect('a')
  with pytest.raises(UnknownPeerError):
    dial(listener.address, b'another key')
  unexpected = dial(listener.address, listener.key)
  unexpected.send(b'b')
  assert lost(unexpected)
  assert not expected.done()
  assert not listener.met
  episode, trainer = arrived(listener, 'a')
  episode.send(b'here')
  assert trainer.receive(100) == b'here'
  for x in (silent, garbage, unexpected, episode, trainer):
    x.close()


def test_a_name_that_dials_again_was_lost(listener):
  episode, trainer = arrived(listener, 'a')
  again = dial(listener.address, listener.key)
  again.send(b'a')
  assert lost(again)
  assert lost(trainer)
  listener.forget('a')
  late = dial(listener.address, listener.key)
  late.send(b'a')
  assert lost(late)
  for x in (episode, trainer, again, late):
    x.close()


def test_an_address_of_another_machine():
  with errors.raises(ValueError, 'host.callback 192.0.2.77'):
    Listener('192.0.2.77')
