"""One writer of a folder: races, kills, stops, clocks that jump."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from agentrl.runtime import lock as lock_lib
from agentrl.runtime import storage
from agentrl.runtime.lock import Lock, LostError, TakenError
from tests import errors
from tests.bucket import bucket  # noqa: F401

REPOSITORY = pathlib.Path(__file__).parents[2]
BEAT, NEVER = 0.05, 1e9  # seconds
# Takes the lock, then adds a line for every line it is told.
HOLDER = """
import sys
from agentrl.runtime.lock import Lock
folder, beat, stale = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
try:
  with Lock(folder, beat=beat, stale=stale) as lock:
    print('have', flush=True)
    for line in sys.stdin:
      lock.check()
      with open(folder + '/written', 'a') as f:
        f.write(line)
      print('wrote', flush=True)
except (ValueError, OSError) as error:
  print(type(error).__name__, error, flush=True)
"""


def holder(folder, *, stale=NEVER, beat=BEAT) -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, '-c', HOLDER, str(folder), str(beat), str(stale)],
    cwd=REPOSITORY,
    env=os.environ | {'PYTHONPATH': str(REPOSITORY)},
    text=True,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )


def asked(process, line) -> str:
  process.stdin.write(line + '\n')
  process.stdin.flush()
  return process.stdout.readline().strip()


def locks(folder) -> list[str]:
  return sorted(p.name for p in folder.iterdir() if p.name.startswith('lock.'))


def rewrite(folder, **changes):
  """Makes the folder's lock that of another process."""
  (path,) = folder.glob('lock.*')
  first, _, rest = path.read_text().partition('\n')
  path.write_text(json.dumps(json.loads(first) | changes) + '\n' + rest)


def left_behind(folder, **changes) -> None:
  """A lock whose holder never gave it back."""
  lock = Lock(folder, beat=NEVER)
  lock.__enter__()
  lock._done.set()  # it is renewed no more
  lock._thread.join()
  rewrite(folder, **changes)


def test_the_second_is_told_of_the_first(tmp_path):
  with Lock(tmp_path, beat=BEAT) as lock:
    with pytest.raises(TakenError) as caught:
      Lock(tmp_path, beat=BEAT).__enter__()
    lock.check()
  host, pid = os.uname().nodename, os.getpid()
  said = str(caught.value)
  errors.check(said, f'{tmp_path} {pid} {host}')
  errors.check(said, '--workdir')
  assert '\n' not in said


def test_one_that_was_given_back_is_free_at_once(tmp_path):
  for _ in range(3):
    with Lock(tmp_path, stale=NEVER) as lock:
      lock.check()
    assert len(locks(tmp_path)) == 1


def test_of_many_at_the_same_moment_one_wins(tmp_path):
  """As processes, in the same instant; the winner stays until all are told."""
  racers = [holder(tmp_path) for _ in range(6)]
  told = [p.stdout.readline().split()[0] for p in racers]
  assert sorted(told) == ['TakenError'] * 5 + ['have']
  for p in racers:
    p.communicate()
  assert len(locks(tmp_path)) == 1


def test_after_a_kill_it_is_taken_over_at_once(tmp_path, caplog):
  """Though nobody waits for the minute; reaped or not."""
  first = holder(tmp_path)
  assert first.stdout.readline() == 'have\n'
  os.kill(first.pid, signal.SIGKILL)
  os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # a zombie is gone
  second = holder(tmp_path)
  assert second.stdout.readline() == 'have\n'
  assert asked(second, 'x') == 'wrote'
  first.communicate()
  second.kill()
  second.communicate()
  with Lock(tmp_path, stale=NEVER):
    pass
  assert f'process {second.pid} on' in caplog.text
  assert 'which has ended' in caplog.text


def test_a_process_id_used_again_is_another_process(tmp_path):
  left_behind(tmp_path, started='1')
  with Lock(tmp_path, stale=NEVER):
    pass


@pytest.mark.parametrize('machine', ['elsewhere', ''])
def test_of_another_machine_it_is_taken_over_when_still(
  tmp_path, caplog, machine
):
  left_behind(tmp_path, machine=machine, host='far', pid=1)
  with Lock(tmp_path, beat=BEAT, stale=0.3) as lock:
    lock.check()
  assert 'process 1 on far since' in caplog.text
  assert 'stopped renewing its lock: taken over' in caplog.text


def test_of_another_machine_it_is_refused_while_renewed(tmp_path):
  with Lock(tmp_path, beat=BEAT) as lock:
    rewrite(tmp_path, machine='elsewhere', host='far', pid=1)
    path = lock._path
    stop = threading.Event()

    def renew():
      while not stop.wait(0.02):
        path.write_bytes(path.read_bytes() + b'.')

    thread = threading.Thread(target=renew)
    thread.start()
    with errors.raises(TakenError, '1'):
      Lock(tmp_path, beat=BEAT, stale=1).__enter__()
    stop.set()
    thread.join()


def test_who_was_stopped_finds_that_out_and_writes_no_more(tmp_path):
  first = holder(tmp_path, stale=0.5)
  first.stdout.readline()
  assert asked(first, 'one') == 'wrote'
  first.send_signal(signal.SIGSTOP)
  second = holder(tmp_path, stale=0.5)
  assert second.stdout.readline() == 'have\n'
  assert asked(second, 'two') == 'wrote'
  first.send_signal(signal.SIGCONT)
  said = asked(first, 'three')
  assert said.startswith('LostError')
  assert f'was taken over by process {second.pid} on' in said
  assert f'({first.pid} on' in said
  assert asked(second, 'four') == 'wrote'  # also after the first has ended
  first.communicate()
  assert asked(second, 'five') == 'wrote'
  second.communicate()
  written = (tmp_path / 'written').read_text()
  assert written == 'one\ntwo\nfour\nfive\n'


@pytest.mark.parametrize('jump', [1e9, -1e9])
def test_a_clock_that_jumps_harms_no_healthy_run(tmp_path, jump, monkeypatch):
  """Of this machine, of the file system; forwards and backwards."""
  with Lock(tmp_path, beat=BEAT, stale=2.0) as lock:
    clock = time.time
    monkeypatch.setattr(time, 'time', lambda: clock() + jump)
    monkeypatch.setattr(lock_lib, '_age', lambda path: jump)
    for _ in range(3):
      with pytest.raises(TakenError):
        Lock(tmp_path, beat=BEAT, stale=2.0).__enter__()
      lock.check()


def test_who_judged_too_long_ago_takes_nothing(tmp_path, monkeypatch):
  """Two more have held the lock since it looked: its number is a past one."""
  with Lock(tmp_path, stale=NEVER):
    pass
  late, free = Lock(tmp_path, stale=NEVER), Lock._free

  def slow(self, number):
    if self is late and number == 1:
      with Lock(tmp_path, stale=NEVER):
        pass
      held.__enter__()
      return True
    return free(self, number)

  held = Lock(tmp_path, beat=BEAT)
  monkeypatch.setattr(Lock, '_free', slow)
  with pytest.raises(TakenError):
    late.__enter__()
  held.check()
  assert locks(tmp_path) == ['lock.3']
  held.__exit__()


@pytest.mark.parametrize('gone', ['folder', 'lock', 'another', 'remade'])
def test_a_removed_folder_is_not_made_again(tmp_path, gone):
  folder = tmp_path / 'run'
  with Lock(folder, beat=BEAT) as lock:
    if gone == 'lock':
      (folder / 'lock.1').unlink()
    else:
      folder.rename(tmp_path / 'elsewhere')
    if gone == 'another':
      with Lock(folder):
        pass
    if gone == 'remade':  # as whatever writes there in the background does
      (folder / 'checkpoints').mkdir(parents=True)
    with errors.raises(LostError, 'lock.1' if gone == 'lock' else 'run'):
      lock.check()
    time.sleep(3 * BEAT)  # the thread makes nothing either
  assert folder.exists() == (gone != 'folder')
  assert gone != 'remade' or not locks(folder)


@pytest.mark.parametrize(
  'how', ['empty', 'garbled', 'folder', 'pipe', 'no holder']
)
def test_a_damaged_lock_is_taken_over_when_still(tmp_path, how):
  path = tmp_path / 'lock.4'
  if how == 'folder':
    (path / 'mine').mkdir(parents=True)
  elif how == 'pipe':
    os.mkfifo(path)
  else:
    text = {'empty': '', 'garbled': '\0{[', 'no holder': '{"pid": 3}\n'}[how]
    path.write_text(text)
  with Lock(tmp_path, beat=BEAT, stale=0.3) as lock:
    lock.check()
    assert 'lock.5' in locks(tmp_path)
  assert (path / 'mine').exists() == (how == 'folder')


def test_a_lock_that_cannot_be_written_leaves_none(tmp_path, monkeypatch):
  def full(fd):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, 'fsync', full)
  with pytest.raises(OSError):
    Lock(tmp_path).__enter__()
  assert not locks(tmp_path)


@pytest.mark.parametrize('number', ['9' * 17, '9' * 18, '9' * 19, '9' * 240])
def test_the_greatest_number_ends_in_a_sentence_or_does_not_count(
  tmp_path, number
):
  (tmp_path / f'lock.{number}').write_text('')
  if len(number) == 18:
    with (
      errors.raises(TakenError, f'lock.{number}'),
      Lock(tmp_path, beat=0.01, stale=0.01),
    ):
      pass
    return
  with Lock(tmp_path, beat=0.01, stale=0.01) as lock:
    lock.check()


@pytest.mark.parametrize('how', ['removed', 'taken over', 'emptied'])
def test_a_lost_lock_in_a_bucket_is_not_written_again(bucket, how):  # noqa: F811
  other = {'removed': None, 'emptied': b'', 'taken over': b'{}\nrenewed\n'}[how]
  folder = storage.path(bucket)

  def held() -> bytes | None:
    return place.read_bytes() if place.exists() else None

  with Lock(folder, beat=NEVER) as lock:
    (place,) = folder.iterdir()
    assert held()
    storage.remove(place)
    if other is not None:
      storage.write(place, other)
    with pytest.raises(LostError):
      lock.check()
  assert held() == other


def test_a_lock_in_a_bucket_is_renewed_and_given_back(bucket):  # noqa: F811
  folder = storage.path(bucket)
  with Lock(folder, beat=BEAT) as lock:
    (place,) = folder.iterdir()
    first, end = place.read_bytes(), time.monotonic() + 20
    while place.read_bytes() == first:
      assert time.monotonic() < end
    with pytest.raises(TakenError):
      Lock(folder, beat=BEAT, stale=1).__enter__()
    lock.check()
  with Lock(folder, beat=NEVER) as lock:  # free at once
    (place,) = folder.iterdir()
    first, *rest = place.read_bytes().splitlines(keepends=True)
    elsewhere = json.loads(first) | {'machine': 'elsewhere'}
    storage.write(place, b'\n'.join([json.dumps(elsewhere).encode(), *rest]))
    with Lock(folder, beat=BEAT, stale=0.2), pytest.raises(LostError):
      lock.check()
