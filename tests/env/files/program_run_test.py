"""Commands: what they are given, how they fail, and that none is left."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from agentrl.env.files import program_run
from agentrl.env.files.program_run import (
  CommandRun,
  FunctionRun,
  ProgramExitError,
)
from tests import errors


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
    ('echo first; echo why >&2; exit 3', '3'),
    ('kill -9 $$', '-9'),
    ('yes 2>&1 | head -c 99999; exit 1', ''),
  ],
)
def test_a_command_that_fails_says_what_it_printed(script, sentence):
  with errors.raises(ProgramExitError, sentence) as error:
    shell(script, {'a': 'b' * 300_000}).wait()
  assert len(str(error.value)) < 2200


def test_a_command_that_is_not_there():
  with errors.raises(ProgramExitError, 'nowhere'):
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
  with pytest.raises(ValueError):
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


def in_sandbox(words):
  if why := program_run.confinement():
    pytest.skip(why)
  return CommandRun(words, 'http://127.0.0.1:9', 'key', {}, sandbox=True)


def test_a_command_in_the_sandbox_is_given_no_keys_of_the_user(monkeypatch):
  monkeypatch.setenv('WANDB_API_KEY', 'secret')
  monkeypatch.setenv('DATABASE_URL', 'secret')
  monkeypatch.setenv('PYTHONHASHSEED', '3')
  shown = 'env; tr "\\0" "\\n" < /proc/$PPID/environ; exit 1'
  with pytest.raises(ProgramExitError) as error:
    in_sandbox(['sh', '-c', shown]).wait()
  said = str(error.value)
  assert 'secret' not in said
  assert 'PYTHONHASHSEED=3' in said
  assert 'OPENAI_API_KEY=key' in said


@pytest.mark.parametrize(
  ('script', 'status'),
  [
    ('touch "$HOME/a" && rm "$TMPDIR/a" && exit 3', '3'),
    ('kill -9 $$', '-9'),
    ('kill -11 $$', '-11'),
  ],
)
def test_a_command_in_the_sandbox_ends_as_it_does(script, status):
  with errors.raises(ProgramExitError, f'{status}'):
    in_sandbox(['sh', '-c', script]).wait()


def test_a_command_in_the_sandbox_that_is_not_there():
  with errors.raises(ProgramExitError, '126 nowhere'):
    in_sandbox(['nowhere']).wait()


def test_nothing_of_the_sandbox_is_left():
  mark = f'97{os.getpid()}'
  in_sandbox(['sh', '-c', f'setsid sleep {mark} & (sleep {mark} &)']).wait()
  run = in_sandbox(['sh', '-c', f'setsid sleep {mark} & sleep {mark}'])
  thread = threading.Thread(target=run.wait)
  thread.start()
  deadline = time.monotonic() + 60
  while len(running(mark)) < 2 and time.monotonic() < deadline:
    time.sleep(0.01)
  assert running(mark)
  run.kill()
  thread.join(60)
  assert not running(mark)


HARD_TO_REMOVE = """
import os, sys
os.mkdir('closed')
os.symlink(sys.argv[1], 'closed/link')
os.symlink(os.path.dirname(sys.argv[1]), 'folder')
os.chmod('closed', 0)
for _ in range(1100):  # deeper than Python recurses, and than a path is long
  os.mkdir('deep')
  os.chdir('deep')
"""


def test_a_folder_is_gone_whatever_was_made_of_it(tmp_path):
  outside = tmp_path / 'outside'
  outside.write_text('x')
  outside.chmod(0o640)
  with program_run.own_folder() as folder:
    words = [sys.executable, '-c', HARD_TO_REMOVE, str(outside)]
    subprocess.run(words, cwd=folder, check=True)
  assert not os.path.exists(folder)
  assert outside.read_text() == 'x'
  assert outside.stat().st_mode & 0o777 == 0o640


def running(mark: str) -> list[str]:
  """Processes that sleep so long."""
  out = []
  for place in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
    with contextlib.suppress(OSError):
      if place.read_bytes() == f'sleep\0{mark}\0'.encode():
        out.append(place.parent.name)
  return out
