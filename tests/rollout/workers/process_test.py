"""Environments in processes: a fault costs one trajectory, nothing is left."""

import os
import pathlib
import signal
import time

import pytest

from tests import marks
from tests.rollout.workers import rooms

marked = marks.marked  # a fixture


@pytest.mark.parametrize('place', ['process', *rooms.CLUSTERS])
def test_a_death_costs_one_trajectory(place):
  with rooms.open_room(place) as room:
    first = rooms.begin(room)[0]
    it = rooms.fault_of(room.step('die'))
    assert it.kind == 'crash'
    assert it.text == (
      'its process ended (status 3); it printed at last: my last words'
    )
    second = rooms.begin(room)[0]
    os.kill(int(second), signal.SIGKILL)
    assert rooms.fault_of(room.step('say x')).kind == 'crash'
    assert len({first, second, rooms.begin(room)[0]}) == 3
    assert rooms.fault_of(room.reset({'do': 'die'}, 0)).kind == 'crash'


def test_what_is_printed_goes_nowhere(capfd):
  with rooms.open_room() as room:
    rooms.begin(room)
    for size in (10, 3_000_000):
      assert room.step(f'flood {size}').result(rooms.WAIT).text == 'dry'
    it = rooms.fault_of(room.step('die'))
    assert it.text.endswith('my last words')
    assert len(it.text) < 2500
  assert capfd.readouterr() == ('', '')


def test_large_messages_pass():
  with rooms.open_room() as room:
    rooms.begin(room)
    word = 'x' * 90_000
    assert room.step(f'say {word}').result(rooms.WAIT).text == word


@pytest.mark.parametrize(
  'how', ['close', 'end', 'die', 'killed', 'hang', 'stop']
)
def test_nobody_is_left_who_has_left_the_group(how, marked):
  """One sleeper in it, and three in sessions and groups of their own."""
  with rooms.open_room() as room:
    group = int(rooms.begin(room)[0])
    room.step('breed').result(rooms.WAIT)
    if how in ('close', 'end', 'killed'):
      room.step('roam').result(rooms.WAIT)
      groups = {os.getpgid(pid) for pid in marks.sleeping(marked, 4)}
      assert len(groups - {group}) == 3
    if how == 'close':
      room.close()
    elif how == 'end':
      room.end()
    elif how == 'killed':
      os.kill(group, signal.SIGKILL)
      assert rooms.fault_of(room.step('say')).text.startswith(
        'its process ended (SIGK'
      )
    elif how == 'die':
      assert rooms.fault_of(room.step('roam_and_die')).kind == 'crash'
    elif how in ('hang', 'stop'):  # ended in the middle of a turn
      hung = room.step(f'roam_and_{how}')
      marks.sleeping(marked, 4)
      if how == 'stop':
        while 'T' not in rooms.process_states(group):
          time.sleep(0.01)
      room.end()
      assert rooms.fault_of(hung).kind == 'timeout'
    assert not marks.left(marked)
    assert rooms.begin(room)[1] == '1'
  assert not marks.left(marked)


def test_nobody_survives_the_trainer(marked):
  it = rooms.start_program(
    """
    them = env_workers(naughty.Family(), 4)
    for i in range(4):
      them[i].reset({}, 0).result(60)
    them[0].step('hang')
    them[1].step('breed').result(60)
    them[2].step('roam').result(60)
    them[3].step('roam_and_hang')
    print('ready', flush=True)
    time.sleep(600)
    """
  )
  assert it.stdout.readline() == b'ready\n'
  marks.sleeping(marked, 7)
  it.kill()
  it.wait()
  it.stdout.close()
  assert not marks.left(marked)


def test_a_child_has_nothing_of_the_trainer():
  """Not its modules; of its open files nothing; and no thread."""
  file = os.open(os.devnull, os.O_RDONLY)
  os.set_inheritable(file, True)
  with rooms.open_room() as room:
    where = rooms.begin(room)[0]
    assert room.step('modules').result(rooms.WAIT).text == ''
    held = [os.readlink(x) for x in pathlib.Path(f'/proc/{where}/fd').iterdir()]
    assert len(held) == 5
    assert held.count(os.devnull) == 1
    assert len(os.listdir(f'/proc/{where}/task')) == 1
  os.close(file)
