"""TextWorldExpress keeps what every host family promises; its Java ends."""

import importlib.util
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from agentrl.env.external.textworld import express
from agentrl.runtime import install
from tests.env.promises import Case, Promises


class TestTextWorldExpress(Promises):
  cases = tuple(
    Case(
      name='textworld_express',
      package='textworld_express',
      extra='java',
      fields={'game': game},
      slow=True,
    )
    for game in express.GAMES
  )
  refused = (({'game': 'zork'}, 'game zork'),)


with_java = pytest.mark.skipif(
  importlib.util.find_spec('textworld_express') is None,
  reason=f'needs textworld-express: {install.command("java")}',
)


@pytest.mark.slow
@with_java
def test_what_can_be_done_is_said_where_it_is_asked_for():
  family = express.TextWorldExpress(admissible=True)
  task = next(family.tasks('train', 1, 0))
  env = family.env()
  text = env.reset(task.task, 0)
  env.close()
  assert 'look around' in text.split('You can: ')[1].split(', ')


@pytest.mark.nightly
@with_java
def test_java_ends_with_the_process_that_started_it():
  """Also where that had no time to say so."""
  code = (
    'import os\n'
    'from agentrl.env.external.textworld import express\n'
    'env = express.TextWorldExpress().env()\n'
    'print(env.world._gateway.java_process.pid, flush=True)\n'
    'os.kill(os.getpid(), 9)\n'
  )
  done = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=False
  )
  assert done.returncode == -signal.SIGKILL
  stat = pathlib.Path(f'/proc/{int(done.stdout)}/stat')
  end = time.monotonic() + 60
  while stat.exists() and stat.read_text().split()[2] != 'Z':
    assert time.monotonic() < end, 'Java lives on'
    time.sleep(0.1)
