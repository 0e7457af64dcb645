"""One environment in a worker: what went wrong in it, what is left of it."""

import contextlib
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest

from agentrl.rollout.workers.pool import env_workers
from agentrl.rollout.workers.replies import EnvError
from agentrl.runtime import install
from tests.rollout.workers import naughty

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
WAIT = 60  # seconds; what never comes fails, what is slow does not


def has_ray() -> bool:
  try:
    import ray  # noqa: F401
  except ImportError:
    return False
  return True


RAY = pytest.mark.skipif(
  not has_ray(), reason=f'needs {install.command("ray")}'
)


@contextlib.contextmanager
def open_room(place='process', **settings):
  with env_workers(naughty.Family(**settings), 1, worker=place) as them:
    yield them[0]


def begin(room) -> list[str]:
  """The process, the number of the task in its environment, and the seed."""
  return room.reset({}, 7).result(WAIT).split()


def fault_of(future) -> EnvError:
  with pytest.raises(EnvError) as caught:
    future.result(WAIT)
  return caught.value


def process_states(group: int) -> str:
  """Of the processes in a group, by /proc."""
  out = ''
  for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
    with contextlib.suppress(OSError):
      state, _, its, *_ = stat.read_text().rpartition(')')[2].split()
      out += state if int(its) == group else ''
  return out


def is_gone(group: int) -> bool:
  """Soon: nobody runs; a zombie waits for the system's first process."""
  end = time.monotonic() + WAIT
  while set(process_states(group)) - {'Z'}:
    if time.monotonic() > end:
      return False
    time.sleep(0.01)
  return True


def start_program(code: str) -> subprocess.Popen:
  head = (
    f'import sys; sys.path[:0] = {[str(HERE), str(ROOT)]}\n'
    'import dataclasses, naughty, time\n'
    'from agentrl.rollout.workers.pool import env_workers\n'
  )
  return subprocess.Popen(
    [sys.executable, '-c', head + textwrap.dedent(code)],
    stdout=subprocess.PIPE,
  )
