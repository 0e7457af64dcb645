"""What ordinary programs do, each by itself; prints what failed.

Run in a sandbox, with a port that answers, in a folder of its own.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time

PORT = int(sys.argv[1]) if sys.argv[1:] and __name__ == '__main__' else 0
TASKS = {}


def task(run):
  TASKS[run.__name__] = run
  return run


def sleeper(**settings):
  return subprocess.Popen(
    [sys.executable, '-c', 'input()'], stdin=-1, **settings
  )


@task
def start_a_program():
  assert subprocess.check_output(['echo', 'a']) == b'a\n'


@task
def pipe_of_a_shell():
  assert subprocess.getoutput('echo b | tr b c | cat') == 'c'


@task
def background_job_of_a_shell():
  said = subprocess.getoutput('sleep 100 & kill $!; wait $!; echo $?')
  assert said.endswith('143')


@task
def fork_and_wait():
  child = os.fork()
  if not child:
    os._exit(5)
  assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


@task
def kill_a_child():
  child = sleeper()
  child.kill()
  assert child.wait() == -9
  child.stdin.close()


@task
def stop_and_continue_a_child():
  child = sleeper()
  child.send_signal(signal.SIGSTOP)
  assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
  child.send_signal(signal.SIGCONT)
  child.communicate(b'\n')
  assert child.returncode == 0


@task
def kill_a_group_in_a_session():
  child = sleeper(start_new_session=True)
  os.killpg(child.pid, signal.SIGTERM)
  assert child.wait() == -15
  child.stdin.close()


@task
def kill_a_grandchild():
  child = subprocess.Popen(
    ['sh', '-c', 'sleep 100 & echo $!; wait'], stdout=-1, text=True
  )
  os.kill(int(child.stdout.readline()), 9)
  child.communicate(timeout=30)


@task
def kill_by_descriptor():
  child = sleeper()
  signal.pidfd_send_signal(os.pidfd_open(child.pid), 9)
  assert child.wait() == -9
  child.stdin.close()


@task
def signal_itself():
  seen = []
  signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
  os.kill(os.getpid(), signal.SIGUSR1)
  signal.raise_signal(signal.SIGUSR1)
  assert seen == [1, 1]


@task
def alarm_and_timer():
  seen = []
  signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
  signal.setitimer(signal.ITIMER_REAL, 0.01)
  time.sleep(0.1)
  assert seen


@task
def run_threads():
  seen = []
  threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(20)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert sorted(seen) == list(range(20))


@task
def pool_of_threads():
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert sum(pool.map(len, ['a', 'bc'])) == 3


@task
def talk_to_a_process():
  here, there = multiprocessing.get_context('fork').Pipe()
  child = multiprocessing.get_context('fork').Process(
    target=there.send, args=(7,)
  )
  child.start()
  assert here.recv() == 7
  child.join()


@task
def limit_itself():
  resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
  assert resource.getrlimit(resource.RLIMIT_NOFILE) == (100, 200)
  soft, hard = resource.getrlimit(resource.RLIMIT_AS)
  resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@task
def limit_a_child():
  child = subprocess.run(
    ['sh', '-c', 'ulimit -n'],
    capture_output=True,
    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
  )
  assert child.stdout == b'64\n'


@task
def ask_for_its_processors():
  processors = os.sched_getaffinity(0)
  os.sched_setaffinity(0, processors)
  assert processors


@task
def be_nice():
  before = os.nice(0)
  assert os.nice(1) == before + 1
  os.setpriority(os.PRIO_PROCESS, 0, before + 2)
  assert subprocess.run(['nice', '-n', '1', 'true']).returncode == 0


@task
def be_scheduled_as_a_batch():
  os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@task
def write_temporary_files():
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, 'a')
    path.write_text('x')
    path.rename(path.with_name('b'))
    os.symlink('b', f'{folder}/c')
    os.link(f'{folder}/b', f'{folder}/d')
    assert sorted(os.listdir(folder)) == ['b', 'c', 'd']
  with tempfile.TemporaryFile() as file:
    file.write(b'x')


@task
def change_modes_and_times():
  path = pathlib.Path('script')
  path.write_text('#!/bin/sh\necho ran\n')
  path.chmod(0o755)
  assert subprocess.check_output(['./script']) == b'ran\n'
  os.utime(path, (1, 1))
  assert stat.S_IMODE(path.stat().st_mode) == 0o755


@task
def keep_a_database():
  with sqlite3.connect('data') as base:
    base.execute('create table t (x)')
    base.execute('insert into t values (3)')
  assert base.execute('select x from t').fetchone() == (3,)


@task
def lock_a_file():
  import fcntl

  with open('lock', 'w') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_UN)


@task
def read_about_itself():
  assert pathlib.Path('/proc/self/status').read_text()
  assert os.listdir('/proc/self/fd')
  assert 'processor' in pathlib.Path('/proc/cpuinfo').read_text()
  assert os.listdir('/')
  assert os.listdir('/usr')


@task
def read_about_a_child():
  child = sleeper(env={'MARK': 'mark'})
  place = pathlib.Path(f'/proc/{child.pid}')
  deadline = time.monotonic() + 30
  while b'MARK' not in (place / 'environ').read_bytes():
    assert time.monotonic() < deadline
  child.communicate(b'\n')


@task
def use_devices():
  pathlib.Path('/dev/null').write_text('x')
  for name in ('random', 'urandom', 'zero'):
    with open(f'/dev/{name}', 'rb') as file:
      assert len(file.read(1)) == 1
  assert subprocess.getoutput('echo x > /dev/stdout') == 'x'


@task
def call_its_port():
  for _ in range(40):
    with socket.create_connection(('127.0.0.1', PORT), timeout=30) as far:
      assert far.recv(1) == b'x'
      assert far.recv(1) == b''


@task
def talk_within():
  left, right = socket.socketpair()
  left.send(b'x')
  assert right.recv(1) == b'x'


@task
def run_an_event_loop():
  import asyncio

  async def talk():
    process = await asyncio.create_subprocess_exec('echo', 'a', stdout=-1)
    return (await process.communicate())[0]

  assert asyncio.run(talk()) == b'a\n'


@task
def leave_orphans():
  subprocess.run(['sh', '-c', '(sleep 0.05 &) ; true'], check=True)


@task
def run_python_again():
  code = 'import json, ssl, hashlib; print(json.dumps(1))'
  assert subprocess.check_output([sys.executable, '-c', code]) == b'1\n'


@task
def map_memory():
  import mmap

  with open('mapped', 'w+b') as file:
    file.truncate(4096)
    with mmap.mmap(file.fileno(), 4096) as memory:
      memory[:1] = b'x'
  held = os.memfd_create('x')
  os.write(held, b'x')


def failed(run):
  try:
    run()
  except Exception as error:
    return f'{run.__name__}: {type(error).__name__} {error}'


if __name__ == '__main__':
  print(len(TASKS), *filter(None, map(failed, TASKS.values())), sep='\n')
