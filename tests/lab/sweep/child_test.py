"""A job's own process: cores of its own, and an end with its parent's."""

import os
import signal
import subprocess
import sys
import time

import jax

from agentrl.lab.sweep import local


def _job(tmp_path, name, code):
  command = (sys.executable, '-c', code)
  return local.Job(name, command, str(tmp_path / name / 'log.txt'))


def test_a_parent_with_threads_is_not_forked(tmp_path, recwarn):
  jax.jit(lambda x: x + 1)(2.0)
  assert not local.run([_job(tmp_path, 'one', '')], 1, lambda *_: None, 0.05)[
    'one'
  ]
  assert not [w for w in recwarn if 'fork' in str(w.message)]


def test_places_have_cores_of_their_own(tmp_path):
  code = 'import os; print(*sorted(os.sched_getaffinity(0)))'
  jobs = [_job(tmp_path, f'{i}', code) for i in range(2)]
  local.run(jobs, 2, lambda *_: None, every=0.05)
  got = [(tmp_path / x / 'log.txt').read_text().split() for x in '01']
  assert [{*map(int, x)} for x in got] == local.cores(2)


def test_children_end_with_a_killed_parent(tmp_path):
  code = (
    'from agentrl.lab.sweep import local\n'
    'import sys\n'
    'child = (sys.executable, "-c", "import os, time;'
    ' print(os.getpid(), flush=True); time.sleep(60)")\n'
    f'job = local.Job("a", child, {str(tmp_path / "log.txt")!r})\n'
    'local.run([job], 1, lambda *_: None, every=0.05)\n'
  )
  parent = subprocess.Popen([sys.executable, '-c', code], cwd=os.getcwd())
  log = tmp_path / 'log.txt'
  while not (log.exists() and log.read_text()):
    time.sleep(0.05)
  child = int(log.read_text())
  os.kill(parent.pid, signal.SIGKILL)
  parent.wait()
  for _ in range(100):
    with (
      open(f'/proc/{child}/stat') if _alive(child) else open(os.devnull) as f
    ):
      if f.read().rpartition(') ')[2][:1] in ('', 'Z'):
        return
    time.sleep(0.05)
  raise AssertionError(f'process {child} is still there')


def _alive(pid):
  return os.path.exists(f'/proc/{pid}/stat')
