"""Whom a test has started: they carry a mark, wherever they are by now."""

import contextlib
import os
import pathlib
import signal
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

NAME = 'AGENTRL_TEST'  # a variable of the environment
WAIT = 60  # seconds; who never ends fails, who is slow does not


@pytest.fixture
def marked(monkeypatch) -> Iterator[Callable[[], set[int]]]:
  """-> the processes that run with the mark of this test, itself not."""
  monkeypatch.setenv(NAME, str(uuid.uuid4()))
  mark = f'{NAME}={os.environ[NAME]}'.encode()

  def running() -> set[int]:
    out = set()
    for place in pathlib.Path('/proc').glob('[0-9]*/environ'):
      with contextlib.suppress(OSError):
        if mark in place.read_bytes().split(b'\0'):  # no zombie's
          out.add(int(place.parent.name))
    return out

  yield running
  for process in running():
    with contextlib.suppress(ProcessLookupError):
      os.kill(process, signal.SIGKILL)


def left(running: Callable[[], set[int]]) -> set[int]:
  """Who still runs when there has been time to end."""
  end = time.monotonic() + WAIT
  while (still := running()) and time.monotonic() < end:
    time.sleep(0.01)
  return still


def sleeping(running: Callable[[], set[int]], count: int) -> set[int]:
  """Who does `sleep`, once there are so many."""
  end = time.monotonic() + WAIT
  while len(out := {x for x in running() if _name(x) == 'sleep'}) < count:
    assert time.monotonic() < end, f'{out} sleep, and not {count}'
    time.sleep(0.01)
  return out


def _name(process: int) -> str:
  with contextlib.suppress(OSError):
    return pathlib.Path(f'/proc/{process}/comm').read_text().strip()
  return ''
