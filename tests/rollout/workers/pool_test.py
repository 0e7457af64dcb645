"""Rooms with naughty environments in them: each fault, and nothing left."""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from agentrl import install
from agentrl.env.base import Reply
from agentrl.rollout.workers.pool import rooms
from agentrl.rollout.workers.replies import (
  KINDS,
  MOST,
  EnvFault,
  checked,
  heard,
  observed,
  told,
)
from tests import marks
from tests.rollout.workers import naughty

marked = marks.marked  # a fixture
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
WAIT = 60  # seconds; what never comes fails, what is slow does not
COLUMNS = naughty.Family.columns


def ray_is_here() -> bool:
  try:
    import ray  # noqa: F401
  except ImportError:
    return False
  return True


RAY = pytest.mark.skipif(
  not ray_is_here(), reason=f'needs {install.command("ray")}'
)
everywhere = pytest.mark.parametrize(
  'place', ['thread', 'process', pytest.param('ray', marks=RAY)]
)


@contextlib.contextmanager
def one(place='process', **settings):
  with rooms(naughty.Family(**settings), 1, place=place) as them:
    yield them[0]


def begun(room) -> list[str]:
  """The process, the number of the task in its environment, and the seed."""
  return room.reset({}, 7).result(WAIT).split()


def fault(future) -> EnvFault:
  with pytest.raises(EnvFault) as caught:
    future.result(WAIT)
  return caught.value


def states(group: int) -> str:
  """Of the processes in a group, by /proc."""
  out = ''
  for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
    with contextlib.suppress(OSError):
      state, _, its, *_ = stat.read_text().rpartition(')')[2].split()
      out += state if int(its) == group else ''
  return out


def gone(group: int) -> bool:
  """Soon: nobody runs; a zombie waits for the system's first process."""
  end = time.monotonic() + WAIT
  while set(states(group)) - {'Z'}:
    if time.monotonic() > end:
      return False
    time.sleep(0.01)
  return True


@everywhere
def test_plays_and_says_what_it_played(place):
  with one(place) as room:
    where, task, seed = begun(room)
    assert (task, seed) == ('1', '7')
    assert (where == str(os.getpid())) == (place == 'thread')
    assert room.step('say ein Schaf ☃').result(WAIT) == Reply(
      'ein Schaf ☃', 1.5, facts={'seen': 2.0, 'unseen': 0.0}
    )


@everywhere
def test_one_environment_serves_fifty_tasks(place):
  with one(place) as room:
    played = [begun(room) for _ in range(50)]
  assert [int(task) for _, task, _ in played] == list(range(1, 51))
  assert len({where for where, _, _ in played}) == 1


BAD = {
  'none': ('answer', 'NoneType'),
  'tuple': ('answer', 'tuple'),
  'bytes': ('answer', 'bytes'),
  'surrogate': ('answer', 'surrogates'),
  'long': ('output', '100001'),
  'huge': ('output', '3000000'),
  'nan': ('answer', 'reward=nan'),
  'inf': ('answer', 'score=inf'),
  'digits': ('answer', 'reward='),
  'rich': ('answer', r'reward=1e\+300 is no number within ±1e\+12'),
  'poor': ('answer', 'reward=-1100000000000.0 is no number within'),
  'payoff': ('answer', r'score=1.5 is not in \[0, 1\]'),
  'debt': ('answer', r'score=-0.25 is not in \[0, 1\]'),
  'words': ('answer', "reward='1'"),
  'done': ('answer', 'done=1'),
  'invalid': ('answer', 'invalid=None'),
  'facts': ('answer', r'facts=\[1\]'),
  'unknown': ('answer', "'sene'"),
  'fact': ('answer', r"facts\['seen'\]=nan"),
  'far': ('answer', r"facts\['seen'\]=1e\+39"),
}


def test_bad_answers_in_every_place():
  """One room each; the fault costs the environment, and not the room."""
  assert BAD.keys() == naughty.VALUES.keys()
  for place in ('thread', 'process') + ('ray',) * ray_is_here():
    with one(place) as room:
      for name, (kind, words) in BAD.items():
        assert begun(room)[1] == '1'
        it = fault(room.step(f'value {name}'))
        assert it.kind == kind, (place, name)
        with pytest.raises(EnvFault, match=words) as caught:
          checked(naughty.VALUES[name], COLUMNS)
        assert it.text == caught.value.text, place


def test_a_checked_answer_is_plain():
  said = checked(
    Reply(
      naughty.Word('x'),
      np.float32(0.5),
      np.bool_(True),
      np.array(1),
      facts={'unseen': True, 'seen': np.int64(3)},
    ),
    COLUMNS,
  )
  assert said == Reply('x', 0.5, True, 1.0, facts={'seen': 3.0, 'unseen': 1.0})
  kinds = [type(x) for x in (*said[:5], *said.facts.values())]
  assert kinds == [str, float, bool, float, bool, float, float]
  assert list(said.facts) == list(COLUMNS)
  assert checked(said, COLUMNS) == said
  assert heard(told(lambda: said), COLUMNS) == said
  assert observed('xyz', 3) == 'xyz'
  with pytest.raises(EnvFault, match='4 characters, more than 3'):
    observed('xyzt', 3)


def test_the_largest_number_can_be_squared_and_added_up_in_float32():
  reply = checked(Reply('', MOST, facts={'seen': -MOST}), COLUMNS)
  assert (reply.reward, reply.facts['seen']) == (MOST, -MOST)
  assert np.isfinite(np.float32(1e14) * np.float32(MOST) ** 2)
  with pytest.raises(EnvFault):
    checked(Reply('', float(np.nextafter(MOST, np.inf))), COLUMNS)


@pytest.mark.parametrize(
  'data',
  [
    b'', b'{', b'\xff', b'[' * 100_000, b'1',
    b'{"text": null}', b'{"reply": 1}',
    b'{"reply": {}}', b'{"reply": {"text": "x", "rewards": 1}}',
    b'{"reply": {"text": "x", "reward": NaN}}',
    b'{"reply": {"text": "x", "reward": 1e300}}',
    b'{"reply": {"text": "x", "score": 2}}',
    b'{"reply": {"text": "x", "reward": 1' + b'0' * 5000 + b'}}',
    b'{"reply": {"text": "x", "facts": {"sene": 1}}}',
    b'{"fault": "nice", "why": ""}', b'{"text": "\\ud800"}',
  ],
  ids=lambda data: data[:12],
)  # fmt: skip
def test_no_process_is_believed(data):
  with pytest.raises(EnvFault) as caught:
    heard(data, COLUMNS)
  assert caught.value.kind == 'answer'


@everywhere
def test_exceptions_name_what_was_raised_and_where(place):
  with one(place) as room:
    for message, words in (
      ('fail', "KeyError: 'lost' ("),
      ('rude', 'Rude, which cannot be shown ('),
      ('leave', 'SystemExit: 3 ('),
    ):
      begun(room)
      it = fault(room.step(message))
      assert it.kind == 'raise'
      assert it.text.startswith(words)
      assert 'naughty.py:' in it.text
    assert fault(room.reset({'do': 'leave'}, 0)).kind == 'raise'
    assert begun(room)[1] == '1'


@everywhere
def test_a_family_without_environment_says_so(place):
  with (
    one(place, bad='missing') as room,
    pytest.raises(ValueError, match='cat'),
  ):
    room.reset({}, 0).result(WAIT)
  with one(place, bad='broken') as room:
    it = fault(room.reset({}, 0))
    assert it.kind == 'raise'
    assert 'OSError: no display' in it.text


@pytest.mark.parametrize('place', ['process', pytest.param('ray', marks=RAY)])
def test_a_death_costs_one_trajectory(place):
  with one(place) as room:
    first = begun(room)[0]
    it = fault(room.step('die'))
    assert it.kind == 'died'
    if place == 'process':
      assert it.text == (
        'its process ended (status 3); it printed at last: my last words'
      )
    second = begun(room)[0]
    os.kill(int(second), signal.SIGKILL)
    assert fault(room.step('say x')).kind == 'died'
    assert len({first, second, begun(room)[0]}) == 3
    assert fault(room.reset({'do': 'die'}, 0)).kind == 'died'


def test_what_is_printed_goes_nowhere(capfd):
  with one() as room:
    begun(room)
    for size in (10, 3_000_000):
      assert room.step(f'flood {size}').result(WAIT).text == 'dry'
    it = fault(room.step('die'))
    assert it.text.endswith('my last words')
    assert len(it.text) < 2500
  assert capfd.readouterr() == ('', '')


def test_large_messages_pass():
  with one() as room:
    begun(room)
    word = 'x' * 90_000
    assert room.step(f'say {word}').result(WAIT).text == word


@pytest.mark.parametrize(
  ('message', 'kind'), [('forge', 'answer'), ('bomb', 'output')]
)
def test_forged_answers(message, kind):
  with one() as room:
    begun(room)
    assert fault(room.step(message)).kind == kind
    assert begun(room)[1] == '1'


@pytest.mark.parametrize('place', ['process', pytest.param('ray', marks=RAY)])
def test_ended_while_it_hangs(place):
  with one(place) as room:
    where = begun(room)[0]
    hung = room.step('hang')
    assert not hung.done()
    room.end()
    assert fault(hung).kind == 'time'
    assert begun(room)[0] != where
    assert gone(int(where))
    room.end()
    room.end()
    assert begun(room)[1] == '1'


def test_a_hung_thread_is_left_behind_and_counted():
  with rooms(naughty.Family(), 2, place='thread') as them:
    begun(them[0])
    begun(them[1])
    hung = them[0].step('hang 2')
    them[0].end()
    them[1].end()
    assert fault(hung).kind == 'time'
    assert begun(them[0])[1] == '1'
    assert them.left() == 1
    end = time.monotonic() + WAIT
    while them.left() and time.monotonic() < end:
      time.sleep(0.01)
    assert them.left() == 0


def test_a_hung_thread_does_not_keep_the_program():
  said = program(
    """
    with rooms(naughty.Family(), 1, place='thread') as them:
      them[0].reset({}, 0).result(60)
      them[0].step('hang')
    print('left', them.left())
    """
  ).communicate(timeout=WAIT)[0]
  assert said == b'left 1\n'


@pytest.mark.parametrize('how', ['end', 'close', 'breed_and_die'])
def test_no_grandchild_is_left(how):
  with one() as room:
    group = int(begun(room)[0])
    if how == 'breed_and_die':
      assert fault(room.step(how)).kind == 'died'
    else:
      room.step('breed').result(WAIT)
      assert len(states(group)) == 3
      getattr(room, how)()
    assert gone(group)


@pytest.mark.parametrize(
  'how', ['close', 'end', 'die', 'killed', 'hang', 'stop']
)
def test_nobody_is_left_who_has_left_the_group(how, marked):
  """Three sleepers, each in a session or group of its own."""
  with one() as room:
    group = int(begun(room)[0])
    if how in ('close', 'end', 'killed'):
      room.step('roam').result(WAIT)
      away = {os.getpgid(pid) for pid in marks.sleeping(marked, 3)}
      assert group not in away
    if how == 'close':
      room.close()
    elif how == 'end':
      room.end()
    elif how == 'killed':
      os.kill(group, signal.SIGKILL)
      assert fault(room.step('say')).text.startswith('its process ended (SIGK')
    elif how == 'die':
      assert fault(room.step('roam_and_die')).kind == 'died'
    elif how in ('hang', 'stop'):  # ended in the middle of a turn
      hung = room.step(f'roam_and_{how}')
      marks.sleeping(marked, 3)
      if how == 'stop':
        while 'T' not in states(group):
          time.sleep(0.01)
      room.end()
      assert fault(hung).kind == 'time'
    assert not marks.left(marked)
    assert begun(room)[1] == '1'
  assert not marks.left(marked)


def test_nothing_is_left_when_the_rooms_close():
  handles = os.listdir('/proc/self/fd')
  threads = threading.active_count()
  with rooms(naughty.Family(), 4) as them:
    groups = [int(begun(them[i])[0]) for i in range(len(them))]
    them[0].step('hang')
    fault(them[1].step('die'))
    them[2].step('breed').result(WAIT)
  assert all(map(gone, groups))
  assert sorted(os.listdir('/proc/self/fd')) == sorted(handles)
  assert threading.active_count() == threads


def program(code: str) -> subprocess.Popen:
  head = (
    f'import sys; sys.path[:0] = {[str(HERE), str(ROOT)]}\n'
    'import dataclasses, naughty, time\n'
    'from agentrl.rollout.workers.pool import rooms\n'
  )
  return subprocess.Popen(
    [sys.executable, '-c', head + textwrap.dedent(code)],
    stdout=subprocess.PIPE,
  )


def test_no_process_survives_the_trainer():
  it = program(
    """
    them = rooms(naughty.Family(), 3)
    for i in range(3):
      print(them[i].reset({}, 0).result(60).split()[0], flush=True)
    them[1].step('hang')
    them[2].step('breed').result(60)
    print('ready', flush=True)
    time.sleep(600)
    """
  )
  groups = [int(it.stdout.readline()) for _ in range(3)]
  assert it.stdout.readline() == b'ready\n'
  assert all(map(states, groups))
  it.kill()
  it.wait()
  it.stdout.close()
  assert all(map(gone, groups))


def test_who_left_the_group_does_not_survive_the_trainer(marked):
  it = program(
    """
    them = rooms(naughty.Family(), 3)
    for i in range(3):
      them[i].reset({}, 0).result(60)
    them[0].step('roam').result(60)
    them[1].step('roam').result(60)
    them[2].step('roam_and_hang')
    print('ready', flush=True)
    time.sleep(600)
    """
  )
  assert it.stdout.readline() == b'ready\n'
  marks.sleeping(marked, 9)
  it.kill()
  it.wait()
  it.stdout.close()
  assert not marks.left(marked)


def test_a_child_has_nothing_of_the_trainer():
  """Not its modules; of its open files nothing; and no thread."""
  file = os.open(os.devnull, os.O_RDONLY)
  os.set_inheritable(file, True)
  with one() as room:
    where = begun(room)[0]
    assert room.step('modules').result(WAIT).text == ''
    held = [os.readlink(x) for x in pathlib.Path(f'/proc/{where}/fd').iterdir()]
    assert len(held) == 5
    assert held.count(os.devnull) == 1
    assert len(os.listdir(f'/proc/{where}/task')) == 1
  os.close(file)


@everywhere
def test_a_family_of_the_program_itself(place):
  """In a process it is a sentence; elsewhere it plays."""
  it = program(
    f"""
    @dataclasses.dataclass(frozen=True)
    class Mine(naughty.Family):
      pass
    try:
      with rooms(Mine(), 1, place={place!r}) as them:
        print(them[0].reset({{}}, 7).result(60).split()[1:])
    except ValueError as error:
      print(error)
    """
  )
  said = it.communicate(timeout=WAIT)[0].decode().splitlines()[-1]
  if place == 'process':
    assert said.startswith('the family Mine stands in the program itself')
  else:
    assert said == "['1', '7']"


def test_a_family_that_only_the_program_has():
  """Its class can be pickled here, and is not found there."""
  module = type(sys)('invented')
  module.Invented = type(
    'Invented', (naughty.Family,), {'__module__': 'invented'}
  )
  sys.modules['invented'] = module
  try:
    with (
      rooms(module.Invented(), 1) as them,
      pytest.raises(ValueError, match=r"'invented'.*use 'thread'"),
    ):
      them[0].reset({}, 0).result(WAIT)
  finally:
    del sys.modules['invented']


def test_every_answer_is_announced():
  with rooms(naughty.Family(), 3, place='thread') as them:
    asked = {i: them[i].reset({}, 0) for i in range(3)}
    assert {them.answered.get(timeout=WAIT) for _ in asked} == asked.keys()
    assert all(future.done() for future in asked.values())
    them[1].step('hang 1')
    them[1].end()
    assert them.answered.get(timeout=WAIT) == 1
  assert them.answered.empty()


def test_mistakes_are_told_before_anything_starts():
  family = naughty.Family()
  for settings, words in (
    ({'place': 'shed'}, "place='shed' is unknown"),
    ({'count': 0}, 'count=0 leaves no room'),
    ({'count': 10**9}, 'use fewer'),
    ({'characters': 0}, 'characters=0 leaves no room'),
  ):
    with pytest.raises(ValueError, match=words):
      rooms(family, **({'count': 1} | settings))
  with pytest.raises(ValueError, match=r'cannot be pickled \(.*plain data'):
    rooms(dataclasses.replace(family, extra=lambda: 0), 1)
  with one('thread') as room:
    with pytest.raises(ValueError, match='call reset first'):
      room.step('say')
    begun(room)
    room.step('hang 1')
    with pytest.raises(ValueError, match='has not answered yet'):
      room.step('say')
  with pytest.raises(ValueError, match=f'use one of .*{KINDS[0]}'):
    EnvFault('tired', '')


@pytest.mark.skipif(ray_is_here(), reason='Ray is installed')
def test_without_ray_says_what_to_install():
  with pytest.raises(ValueError, match=re.escape(install.command('ray'))):
    rooms(naughty.Family(), 1, place='ray')
