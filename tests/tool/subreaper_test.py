"""What a command starts ends with it, wherever it has gone."""

import os
import signal
import subprocess
import sys

import pytest

from agentrl.tool import subreaper
from tests import marks

WAIT = marks.WAIT
marked = marks.marked  # a fixture
# Leaves two sleepers behind, an orphan among them, in sessions of their own.
ROAM = """
import os, subprocess, sys
subprocess.Popen(['sleep', '600'], start_new_session=True)
if not (parent := os.fork()):
  os.setsid()
  if not os.fork():
    os.execvp('sleep', ['sleep', '600'])
  os._exit(0)
os.waitpid(parent, 0)
print('ready', flush=True)
"""

linux = pytest.mark.skipif(
  sys.platform != 'linux', reason='only Linux has subreapers'
)


def started(code: str) -> subprocess.Popen:
  return subprocess.Popen(
    subreaper.command([sys.executable, '-c', code]),
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )


def test_it_reads_prints_and_ends_as_the_command_does():
  it = started('import sys; print(sys.stdin.read()[::-1]); sys.exit(7)')
  assert it.communicate(b'abc', WAIT)[0] == b'cba\n'
  assert it.returncode == 7
  it = started('import os; os.kill(os.getpid(), 6)')
  it.communicate(timeout=WAIT)
  assert it.returncode == -signal.SIGABRT
  it = subprocess.Popen(
    subreaper.command(['/no/such/program']), stderr=subprocess.PIPE
  )
  assert b'/no/such/program: No such file' in it.communicate(timeout=WAIT)[1]
  assert it.returncode == 127


@linux
@pytest.mark.parametrize('how', ['ends', 'end', 'killed'])
def test_whoever_is_left_is_killed(how, marked):
  code = ROAM + ('' if how == 'ends' else 'import time; time.sleep(600)')
  it = started(code)
  assert it.stdout.readline() == b'ready\n'
  if how == 'end':
    subreaper.end(it.pid)
  elif how == 'killed':  # the command, not what watches over it
    (child,) = marked() - marks.sleeping(marked, 2) - {it.pid}
    os.kill(child, signal.SIGKILL)
  it.wait(WAIT)
  assert it.returncode == (0 if how == 'ends' else -signal.SIGKILL)
  assert not marked()  # before it ends itself, and not some time later


@linux
def test_it_ends_with_whoever_started_it(marked):
  code = (
    'import subprocess, sys, time\n'
    'from agentrl.tool import subreaper\n'
    'subprocess.Popen(subreaper.command('
    f'[sys.executable, "-c", {ROAM!r} + "import time; time.sleep(600)"]))\n'
    'time.sleep(600)'
  )
  it = subprocess.Popen(
    [sys.executable, '-c', code],
    stdout=subprocess.PIPE,
    env=os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
  )
  assert it.stdout.readline() == b'ready\n'
  marks.sleeping(marked, 2)
  it.kill()
  it.wait()
  it.stdout.close()
  assert not marks.left(marked)
