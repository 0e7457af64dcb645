"""A process that answers requests as lines of JSON, several at a time.

  -> {"id": 3, "request": {...}}
  <- {"id": 3, "answer": {...}}   or   {"id": 3, "error": "what went wrong"}

It is started when it is first asked, and again after its death, which costs the
requests under way. With all that it has started it ends with this process.
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.tool import subreaper

LIMIT = 1 << 20  # bytes of a line
_TAIL = 2000  # bytes of what it printed that an error repeats
# What a line raises that is not an answer.
_UNREADABLE = (
  ValueError,
  ArithmeticError,
  RecursionError,
  LookupError,
  TypeError,
)


class LineError(RuntimeError):
  """A request that failed, or met the death of its process."""


class LineServer:
  """Asks a process that lives as long as it can; from any thread."""

  def __init__(self, words: Sequence[str], environ: Mapping[str, str]):
    """Starts nothing yet.

    Args:
      words: of the command
      environ: variables beside those of this process
    """
    self._words, self._environ = list(words), dict(environ)
    self._lock = threading.Lock()
    self._life: _Life | None = None

  def ask(self, request: Mapping[str, Any]) -> '_Pending':
    """Sends a request; its answer is awaited with `wait`."""
    with self._lock:
      if self._life is None or self._life.over:
        self._life = _Life(self._words, self._environ)
      return self._life.ask(request)

  def close(self) -> None:
    """Ends the process, and what waits for it."""
    with self._lock:
      if self._life is not None:
        self._life.kill()


class _Pending:
  """A request under way."""

  def __init__(self, life: '_Life', number: int):
    self._life, self._number = life, number
    self.future: concurrent.futures.Future = concurrent.futures.Future()

  def wait(self) -> Mapping[str, Any]:
    """Returns the answer. Raises LineError."""
    return self.future.result()

  def cancel(self) -> None:
    """Takes it back: the process may stop working on it."""
    self._life.forget(self._number)


class _Life:
  """One process, from its start to its end."""

  def __init__(self, words: Sequence[str], environ: Mapping[str, str]):
    self.over = False
    self._words, self._environ = words, environ
    self._lock = threading.Lock()  # of what is pending, and of the input
    self._pending: dict[int, _Pending] = {}
    self._numbers = itertools.count()
    self._started = threading.Event()
    self._process: subprocess.Popen | None = None
    # A process ends with the thread that started it, so that one reads it too.
    self._thread = threading.Thread(target=self._live, daemon=True)
    self._thread.start()
    self._started.wait()

  def ask(self, request: Mapping[str, Any]) -> _Pending:
    with self._lock:
      number = next(self._numbers)
      pending = self._pending[number] = _Pending(self, number)
      if self.over:
        _fail(pending, 'its process has ended')
        return pending
    self._write({'id': number, 'request': dict(request)})
    return pending

  def forget(self, number: int) -> None:
    with self._lock:
      pending = self._pending.pop(number, None)
    if pending is not None:
      _fail(pending, 'it was taken back')
      self._write({'id': number, 'cancel': True})

  def kill(self) -> None:
    if self._process is not None and self._process.poll() is None:
      subreaper.end(self._process.pid)
    self._thread.join()

  def _write(self, message: Mapping[str, Any]) -> None:
    """Sends a message; a dead process is heard of by its end of output."""
    data = (json.dumps(message) + '\n').encode()
    with self._lock, contextlib.suppress(OSError, ValueError):
      assert self._process is not None
      assert self._process.stdin is not None
      self._process.stdin.write(data)
      self._process.stdin.flush()

  def _live(self) -> None:
    why = 'its process could not be started'
    try:
      self._process = subprocess.Popen(
        subreaper.command(self._words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | self._environ,
        start_new_session=True,
      )
      self._started.set()
      why = self._read(self._process)
    except OSError as error:
      why = f'{why}: {error}'
    finally:
      with self._lock:
        self.over, pending = True, list(self._pending.values())
      self._started.set()
      for one in pending:
        _fail(one, why)

  def _read(self, process: subprocess.Popen) -> str:
    """Hands answers out until the process ends; -> how it did."""
    assert process.stdin is not None
    assert process.stdout is not None
    tail = bytearray()
    note = threading.Thread(target=_note, args=(process, tail))
    note.start()
    why = ''
    while line := process.stdout.readline(LIMIT + 1):
      try:
        if len(line) > LIMIT:
          raise ValueError('it is too long')
        answer = json.loads(line)
        number = int(answer['id'])
      except _UNREADABLE as error:
        why = f'its process wrote {line[:80]!r} ({error})'
        subreaper.end(process.pid)
        break
      with self._lock:
        pending = self._pending.pop(number, None)
      if pending is not None:  # else it was taken back
        _settle(pending, answer)
    status = process.wait()
    note.join()
    with contextlib.suppress(OSError):
      process.stdin.close()
    process.stdout.close()
    printed = tail.decode('utf-8', 'replace').strip()
    last = f'; it printed at last: {printed}' if printed else ''
    return why or f'its process ended with status {status}{last}'


def _settle(pending: _Pending, answer: Mapping[str, Any]) -> None:
  if isinstance(answer.get('answer'), dict):
    with contextlib.suppress(concurrent.futures.InvalidStateError):
      pending.future.set_result(answer['answer'])
  else:
    _fail(pending, str(answer.get('error', answer))[:_TAIL])


def _fail(pending: _Pending, why: str) -> None:
  with contextlib.suppress(concurrent.futures.InvalidStateError):
    pending.future.set_exception(LineError(why))


def _note(process: subprocess.Popen, tail: bytearray) -> None:
  """Keeps the last bytes of what is printed."""
  assert process.stderr is not None
  with process.stderr as stream:
    while piece := os.read(stream.fileno(), 1 << 16):
      tail += piece
      del tail[:-_TAIL]
