"""Commands: what they are given, how they fail, and that none is left."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from agentrl.env import program_run
from agentrl.env.program_run import CommandRun, FunctionRun, ProgramExitError


def shell(script, task=None):
  return CommandRun(['sh', '-c', script], 'http://h/s/a', 'key', task or {})


def test_a_command_is_given_its_task_and_its_address(tmp_path):
  out = tmp_path / 'out'
  names = 'OPENAI_BASE_URL OPENAI_API_KEY ANTHROPIC_BASE_URL ANTHROPIC_API_KEY'
  shown = ' '.join(f'"${x}"' for x in names.split())
  shell(f'cat > {out}; echo {shown} >> {out}', {'a': 'é'}).wait()
  assert out.read_text() == ('{"a": "é"}http://h/s/a/v1 key http://h/s/a key\n')


def test_loopback_is_asked_directly(monkeypatch):
  monkeypatch.setenv('NO_PROXY', 'x.org')
  environ = program_run.environment('http://h/s/a', 'key')
  assert environ['NO_PROXY'] == f'x.org,{program_run.LOOPBACK}'


@pytest.mark.parametrize(
  ('script', 'sentence'),
  [
    ('echo first; echo why >&2; exit 3', '(?s)sh ended with status 3.*why'),
    ('kill -9 $$', 'sh ended with status -9'),
    ('yes 2>&1 | head -c 99999; exit 1', 'y$'),
  ],
)
def test_a_command_that_fails_says_what_it_printed(script, sentence):
  with pytest.raises(ProgramExitError, match=sentence) as error:
    shell(script, {'a': 'b' * 300_000}).wait()
  assert len(str(error.value)) < 2200


def test_a_command_that_is_not_there():
  with pytest.raises(ProgramExitError, match='nowhere: No such file'):
    CommandRun(['nowhere'], '', '', {}).wait()


def test_a_killed_command_leaves_nothing_running(tmp_path):
  file = tmp_path / 'pid'
  run = shell(
    f'setsid sleep 600 & echo $! > {file}.n; mv {file}.n {file}; wait'
  )
  thread = threading.Thread(target=run.wait)
  thread.start()
  while not file.exists():
    time.sleep(0.01)
  run.kill()
  thread.join(20)
  assert not thread.is_alive()
  pid = int(file.read_text())
  state = pathlib.Path(f'/proc/{pid}/stat')
  assert not state.exists() or ' Z ' in state.read_text()
  run.kill()  # once more
  before = shell(f'touch {tmp_path / "never"}')
  before.kill()
  before.wait()
  assert not os.path.exists(tmp_path / 'never')


def test_a_function_raises_what_it_raises():
  run = FunctionRun(lambda *x: x.index(1), 'a', 'k', {})
  with pytest.raises(ValueError, match='not in tuple'):
    run.wait()
  run.kill()


def test_a_signal_to_the_group_is_for_the_run_alone(tmp_path):
  """Ctrl-C and SIGTERM reach the run, which decides what becomes of a program.

  Otherwise a program that is cut looks like one that has failed.
  """
  done = subprocess.run(
    [sys.executable, '-m', 'tests.env.signalled_group', str(tmp_path)],
    env=os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    capture_output=True,
    text=True,
    timeout=60,
    start_new_session=True,
  )
  assert done.stdout.strip() == "['whole', {}] 2", done.stderr
