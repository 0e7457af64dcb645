"""Copies of the repository in which mistakes are planted and tests are run."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.mutation.nearest import ROOT

_LEFT = shutil.ignore_patterns(
  '.*', '__pycache__', '*.egg-info', 'runs', 'data', 'build', 'dist'
)
_USAGE = 3, 4  # pytest's: it broke, or was called wrongly
_NO_TEST = 5
_PASSED = re.compile(r'^\d+ passed', re.MULTILINE)
_WHO = re.compile(r'^(?:FAILED|ERROR) (\S+)', re.MULTILINE)


class Ran(NamedTuple):
  """What came of some tests."""

  outcome: str  # 'passed', 'failed', 'died', 'time' or 'skipped'
  seconds: float
  who: str  # the test that failed; '' if none is named
  text: str  # what pytest printed
  work: float = 0.0  # seconds of processors, however busy the machine is


class Copy:
  """A copy of the repository, with a cache of compiled programs of its own.

  Programs are cached by what is compiled: those of a mistake are its own.
  """

  def __init__(self, folder: pathlib.Path):
    self.root, self.cache = folder / 'tree', folder / 'compiled'
    shutil.copytree(ROOT, self.root, symlinks=True, ignore=_LEFT)
    self.cache.mkdir()
    # By default Python knows a changed file by its size and second.
    subprocess.run(
      [
        sys.executable,
        '-m',
        'compileall',
        '-q',
        '--invalidation-mode',
        'checked-hash',
        'agentrl',
        'configs',
        'experiments',
      ],
      cwd=self.root,
      check=True,
    )
    self._server = Server(self.root, self._env())

  def close(self) -> None:
    self._server.close()

  @contextlib.contextmanager
  def planted(self, file: str | pathlib.Path, text: str) -> Iterator[None]:
    """The file has another text."""
    path = self.root / file
    old = path.read_text(encoding='utf-8')
    path.write_text(text, encoding='utf-8')
    try:
      yield
    finally:
      path.write_text(old, encoding='utf-8')

  def run(self, tests: str, limit: float) -> Ran:
    """Fast tests up to the first that fails, in a process of their own."""
    began, report = time.monotonic(), self.root.parent / 'report'
    words = ['-x', '-n', '0', '-p', 'no:cacheprovider', *tests.split()]
    code, work = self._server.run(words, report, limit)
    text = report.read_text(errors='replace')
    if code in _USAGE:
      raise RuntimeError(f'pytest {tests} ended with {code}:\n{text[-2000:]}')
    who = _WHO.search(text)
    return Ran(
      _outcome(code, text),
      time.monotonic() - began,
      who[1] if who else '',
      text,
      work,
    )

  def _env(self) -> dict[str, str]:
    return {
      'PYTHONPATH': str(self.root),
      'JAX_COMPILATION_CACHE_DIR': str(self.cache),
      'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
    }


def each(copies: Sequence[Copy], work: Callable, items: Sequence):
  """(item, work(copy, item)) as they are done, one at a time in a copy."""
  free = queue.SimpleQueue()
  for copy in copies:
    free.put(copy)

  def one(item):
    copy = free.get()
    try:
      return item, work(copy, item)
    finally:
      free.put(copy)

  with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
    waiting = [pool.submit(one, item) for item in items]
    try:
      for done in concurrent.futures.as_completed(waiting):
        yield done.result()
    finally:
      for later in waiting:
        later.cancel()


def _outcome(code: int | None, text: str) -> str:
  if code is None:
    return 'time'
  if code == _NO_TEST or (not code and not _PASSED.search(text)):
    return 'skipped'
  return {0: 'passed'}.get(code, 'failed' if code > 0 else 'died')


class Server:
  """`tests.mutation.server` in a folder, one set of tests at a time."""

  def __init__(self, root: pathlib.Path, env: dict[str, str]):
    self._process = subprocess.Popen(
      [sys.executable, '-m', 'tests.mutation.server'],
      cwd=root,
      env=os.environ | env,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
    )
    self._lines = queue.SimpleQueue()
    threading.Thread(target=self._read, daemon=True).start()

  def _read(self) -> None:
    for line in self._process.stdout:
      self._lines.put(int(line))
    self._lines.put(None)

  def run(
    self, words: list[str], report: pathlib.Path, limit: float
  ) -> tuple[int | None, float]:
    """pytest's code and its seconds of processors.

    The code is negative by a signal, and None if the limit is reached.
    """
    asked = json.dumps({'words': words, 'report': str(report)})
    self._process.stdin.write(f'{asked}\n')
    self._process.stdin.flush()
    session = self._line(None)
    try:
      return self._line(limit), self._line(None) / 1000
    except queue.Empty:
      _kill(session)
      self._line(None)
      return None, self._line(None) / 1000
    finally:
      _kill(session)  # what it started

  def _line(self, limit: float | None) -> int:
    line = self._lines.get(timeout=limit)
    if line is None:
      raise RuntimeError(f'the server ended with {self._process.wait()}')
    return line

  def close(self) -> None:
    self._process.stdin.close()
    self._process.wait()


def _kill(session: int) -> None:
  with contextlib.suppress(ProcessLookupError):
    os.killpg(session, signal.SIGKILL)
