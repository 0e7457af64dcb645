"""Rooms with naughty environments in them: each fault, and nothing left."""

import dataclasses
import os
import sys
import threading
import time

import pytest

from agentrl.env.base import Step
from agentrl.rollout.workers.pool import env_workers
from agentrl.rollout.workers.replies import KINDS, EnvError
from tests import errors
from tests.rollout.workers import naughty, rooms

everywhere = pytest.mark.parametrize(
  'place', ['thread', 'process', *rooms.CLUSTERS]
)


@everywhere
def test_plays_and_says_what_it_played(place):
  with rooms.open_room(place) as room:
    where, task, seed = rooms.begin(room)
    assert (task, seed) == ('1', '7')
    assert (where == str(os.getpid())) == (place == 'thread')
    assert room.step('say ein Schaf ☃').result(rooms.WAIT) == Step(
      'ein Schaf ☃', 1.5, info={'seen': 2.0, 'unseen': 0.0}
    )


@pytest.mark.parametrize('place', ['thread', 'process'])
def test_one_environment_serves_fifty_tasks(place):
  with rooms.open_room(place) as room:
    played = [rooms.begin(room) for _ in range(50)]
  assert [int(task) for _, task, _ in played] == list(range(1, 51))
  assert len({where for where, _, _ in played}) == 1


@pytest.mark.parametrize('place', rooms.CLUSTERS)
def test_every_task_is_an_episode_of_its_own_in_a_cluster(place):
  with rooms.open_room(place) as room:
    played = [rooms.begin(room) for _ in range(3)]
    assert [task for _, task, _ in played] == ['1'] * 3
    assert all(rooms.is_gone(int(where)) for where, _, _ in played[:2])
  assert rooms.is_gone(int(played[2][0]))


@everywhere
def test_exceptions_name_what_was_raised_and_where(place):
  with rooms.open_room(place) as room:
    for message, words in (
      ('fail', "KeyError: 'lost' ("),
      ('rude', 'Rude, which cannot be shown ('),
      ('leave', 'SystemExit: 3 ('),
    ):
      rooms.begin(room)
      it = rooms.fault_of(room.step(message))
      assert it.kind == 'exception'
      assert it.text.startswith(words)
      assert 'naughty.py:' in it.text
    assert rooms.fault_of(room.reset({'do': 'leave'}, 0)).kind == 'exception'
    assert rooms.begin(room)[1] == '1'


@everywhere
def test_a_family_without_environment_says_so(place):
  with (
    rooms.open_room(place, bad='missing') as room,
    pytest.raises(ValueError),
  ):
    room.reset({}, 0).result(rooms.WAIT)
  with rooms.open_room(place, bad='broken') as room:
    it = rooms.fault_of(room.reset({}, 0))
    assert it.kind == 'exception'
    assert 'OSError: no display' in it.text


@pytest.mark.parametrize('place', ['process', *rooms.CLUSTERS])
def test_ended_while_it_hangs(place):
  with rooms.open_room(place) as room:
    where = rooms.begin(room)[0]
    hung = room.step('hang')
    assert not hung.done()
    room.end()
    assert rooms.fault_of(hung).kind == 'timeout'
    assert rooms.begin(room)[0] != where
    assert rooms.is_gone(int(where))
    room.end()
    room.end()
    assert rooms.begin(room)[1] == '1'


def test_a_hung_thread_is_left_behind_and_counted():
  with env_workers(naughty.Family(), 2, worker='thread') as them:
    rooms.begin(them[0])
    rooms.begin(them[1])
    hung = them[0].step('hang 1')
    them[0].end()
    them[1].end()
    assert rooms.fault_of(hung).kind == 'timeout'
    assert rooms.begin(them[0])[1] == '1'
    assert them.left() == 1
    end = time.monotonic() + rooms.WAIT
    while them.left() and time.monotonic() < end:
      time.sleep(0.01)
    assert them.left() == 0


def test_a_hung_thread_does_not_keep_the_program():
  said = rooms.start_program(
    """
    with env_workers(naughty.Family(), 1, worker='thread') as them:
      them[0].reset({}, 0).result(60)
      them[0].step('hang')
    print('left', them.left())
    """
  ).communicate(timeout=rooms.WAIT)[0]
  assert said == b'left 1\n'


def test_nothing_is_left_when_the_rooms_close():
  handles = os.listdir('/proc/self/fd')
  threads = threading.active_count()
  with env_workers(naughty.Family(), 4) as them:
    groups = [int(rooms.begin(them[i])[0]) for i in range(len(them))]
    them[0].step('hang')
    rooms.fault_of(them[1].step('die'))
    them[2].step('breed').result(rooms.WAIT)
  assert all(map(rooms.is_gone, groups))
  assert sorted(os.listdir('/proc/self/fd')) == sorted(handles)
  assert threading.active_count() == threads


@pytest.mark.parametrize(
  'place', ['thread', 'process', pytest.param('dask', marks=rooms.DASK)]
)
def test_a_family_of_the_program_itself(place):
  """In a thread it plays; elsewhere it is a sentence."""
  it = rooms.start_program(
    f"""
    @dataclasses.dataclass(frozen=True)
    class Mine(naughty.Family):
      pass
    try:
      with env_workers(Mine(), 1, worker={place!r}) as them:
        print(them[0].reset({{}}, 7).result(60).split()[1:])
    except ValueError as error:
      print(error)
    """
  )
  said = it.communicate(timeout=rooms.WAIT)[0].decode().splitlines()[-1]
  if place == 'thread':
    assert said == "['1', '7']"
  else:
    assert said.startswith('the family Mine stands in the program itself')


def test_a_family_that_only_the_program_has():
  """Its class can be pickled here, and is not found there."""
  module = type(sys)('invented')
  module.Invented = type(
    'Invented', (naughty.Family,), {'__module__': 'invented'}
  )
  sys.modules['invented'] = module
  try:
    with (
      env_workers(module.Invented(), 1) as them,
      errors.raises(ValueError, 'invented thread'),
    ):
      them[0].reset({}, 0).result(rooms.WAIT)
  finally:
    del sys.modules['invented']


def test_every_answer_is_announced():
  with env_workers(naughty.Family(), 3, worker='thread') as them:
    asked = {i: them[i].reset({}, 0) for i in range(3)}
    assert {
      them.answered.get(timeout=rooms.WAIT) for _ in asked
    } == asked.keys()
    assert all(future.done() for future in asked.values())
    them[1].step('hang 1')
    them[1].end()
    assert them.answered.get(timeout=rooms.WAIT) == 1
  assert them.answered.empty()


def test_mistakes_are_told_before_anything_starts():
  family = naughty.Family()
  for settings, words in (
    ({'worker': 'shed'}, 'worker shed'),
    ({'count': 0}, 'count 0'),
    ({'count': 10**9}, ''),
    ({'characters': 0}, 'characters 0'),
  ):
    with errors.raises(ValueError, words):
      env_workers(family, **({'count': 1} | settings))
  with pytest.raises(ValueError):
    env_workers(dataclasses.replace(family, extra=lambda: 0), 1)
  with rooms.open_room('thread') as room:
    with pytest.raises(ValueError):
      room.step('say')
    rooms.begin(room)
    room.step('hang 1')
    with pytest.raises(ValueError):
      room.step('say')
  with errors.raises(ValueError, f'{KINDS[0]}'):
    EnvError('tired', '')
