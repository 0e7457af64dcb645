"""Environment in a process of its own, trainer side.

A fresh interpreter, not a fork: it has none of JAX, of the trainer's threads
and of its open files. It is killed with all that it started, whatever process
group or session that is in by then: above it is a subreaper, the process that
the trainer knows, and the trainer's own end is its end too.
"""

import contextlib
import os
import pathlib
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from agentrl.env.base import EnvFamily, OwnProcess, Step
from agentrl.env.external import interpreter
from agentrl.rollout.workers.process_main import write
from agentrl.rollout.workers.replies import EnvError, decode_reply
from agentrl.tool import subreaper

_PROGRAM = str(pathlib.Path(__file__).with_name('process_main.py'))
_TAIL = 2000  # bytes of what it printed that are kept
_OTHERS = 200  # open files of the rest of the trainer
_GRACE = 2.0  # seconds to end in by itself
# What a child has unless the user says otherwise: no thread for every core, and
# the same order of sets each time. Never the devices of the trainer.
_PLAIN = {
  'OMP_NUM_THREADS': '1',
  'OPENBLAS_NUM_THREADS': '1',
  'PYTHONHASHSEED': '0',
}


class ProcessEnv:
  """One environment in a process, which is started when it is needed.

  All but `kill` is for one thread, which must outlive the process: the system
  kills a process when the thread that started it ends.
  """

  delayed = False

  def __init__(self, family: EnvFamily, characters: int):
    """Takes a family, which must be `sendable`."""
    self._family, self._characters = family, characters
    self._most = 16 * characters + (1 << 20)  # bytes of an answer
    self._process: subprocess.Popen | None = None
    self._killed = False
    self._lock = threading.Lock()  # of the two above
    self._tail = b''

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task: -> the first observation.

    Raises:
      EnvError: any but timeout.
      ValueError: the family has no environment here, and says why.
    """
    if self._process is None:
      self._start()
    return self._call(str, 'reset', dict(task), seed)

  def step(self, message: str) -> Step:
    """Plays one turn.

    Raises:
      EnvError: any but timeout.
    """
    if self._process is None:
      raise ValueError('no task is under way; call reset before step')
    return self._call(Step, 'step', message)

  def rest(self) -> None:
    """Keeps the process for the next task."""

  def kill(self) -> bool:
    """Kills the process; a pending call raises."""
    with self._lock:
      self._killed = True
      if self._process is not None:
        subreaper.end(self._process.pid)
    return True

  def close(self) -> None:
    """Lets the environment shut down briefly, then kills it."""
    if self._process is None:
      return
    if not self._killed:
      with contextlib.suppress(BrokenPipeError):
        write(self._send, pickle.dumps(('close',)))
      poll = select.poll()  # select.select takes no handle above 1023
      poll.register(self._receive, select.POLLIN)
      poll.poll(1000 * _GRACE)  # until it ends
    self._stop()

  def _start(self) -> None:
    receive, self._send = os.pipe()
    self._receive, send = os.pipe()
    self._output, printed = os.pipe()
    os.set_blocking(self._output, False)
    self._tail = b''
    ends = map(str, (receive, send, os.getpid()))
    python, order = _order(self._family, self._characters)
    with self._lock:
      self._process = subprocess.Popen(
        [python, '-P', _PROGRAM, *ends],
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        pass_fds=(receive, send),
        env=_PLAIN | os.environ | {'JAX_PLATFORMS': 'cpu'},
        start_new_session=True,
      )
      if self._killed:
        subreaper.end(self._process.pid)
    for handle in (receive, send, printed):
      os.close(handle)
    self._poll = select.poll()
    self._poll.register(self._receive, select.POLLIN)
    self._poll.register(self._output, select.POLLIN)
    with contextlib.suppress(BrokenPipeError):  # the first call will say so
      write(self._send, pickle.dumps(order))

  def _call(self, kind: type, *call: Any) -> Any:
    """Returns the result of a call; stops a process that fails to give one."""
    try:
      write(self._send, pickle.dumps(call))
      out = decode_reply(self._answer(), self._family.columns, self._characters)
      if not isinstance(out, kind | Exception):
        raise EnvError('malformed', 'its process answered another call')
    except (EOFError, BrokenPipeError):
      status = self._stop()
      how = f'status {status}' if status >= 0 else signal.Signals(-status).name
      printed = self._tail.decode('utf-8', 'replace').strip()
      last = f'; it printed at last: {printed}' if printed else ''
      out = EnvError('crash', f'its process ended ({how}){last}')
    except EnvError:
      self._stop()
      raise
    if isinstance(out, Exception):
      raise out
    return out

  def _answer(self) -> bytes:
    """Reads one frame; what is printed meanwhile goes to the tail."""
    data, size = b'', 4
    while len(data) < size:
      ready = [handle for handle, _ in self._poll.poll()]
      if self._output in ready:
        self._note()
      if self._receive in ready:
        piece = os.read(self._receive, 1 << 16)
        if not piece:
          raise EOFError
        data += piece
        if size == 4 <= len(data):
          size += int.from_bytes(data[:4])
      if max(len(data), size) > self._most:
        raise EnvError(
          'oversize', f'its process sent more than {self._most} bytes'
        )
    return data[4:] if len(data) == size else b''

  def _note(self) -> None:
    """Keeps the last bytes of the output."""
    try:
      piece = os.read(self._output, 1 << 16)
    except BlockingIOError:
      return
    self._tail = (self._tail + piece)[-_TAIL:]
    if not piece:  # it has closed its output
      with contextlib.suppress(KeyError):
        self._poll.unregister(self._output)

  def _stop(self) -> int:
    """Kills all its descendants; -> the exit status."""
    with self._lock:  # until it is waited for the id cannot be reused
      process, self._process = self._process, None
      assert process is not None, 'it has been started'
      subreaper.end(process.pid)
    status = process.wait()
    for _ in range(16):  # 64 KB each: the pipe holds no more
      self._note()
    for handle in (self._send, self._receive, self._output):
      os.close(handle)
    return status


def _order(family: EnvFamily, characters: int) -> tuple[str, tuple]:
  """Returns the interpreter of a family, and what its process is told first.

  Another virtual environment keeps its packages, and gets but the folders of
  the user's modules and what makes environments.
  """
  if isinstance(family, OwnProcess) and family.python:
    paths, made = interpreter.own_paths(), pickle.dumps(family.maker)
    return family.python, (paths, True, made, characters)
  return sys.executable, (sys.path, False, pickle.dumps(family), characters)


def check_process_limit(count: int) -> None:
  """Checks the limit of open files against `count` children.

  Raises:
    ValueError: it is too low.
  """
  need = 3 * count + _OTHERS
  most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
  if need > most != resource.RLIM_INFINITY:
    raise ValueError(
      f'{count} environments in other processes need {need} open files and'
      f' {most} are allowed; run ulimit -n {need} before it, or use fewer'
    )


def sendable(family: EnvFamily) -> None:
  """Checks that a family can be sent to another process.

  Raises:
    ValueError: it cannot.
  """
  name = type(family).__name__
  if type(family).__module__ == '__main__':
    raise ValueError(
      f'the family {name} stands in the program itself, where no other process'
      " finds it; put it in a module and import it, or use worker='thread'"
    )
  try:
    pickle.dumps(family)
  except Exception as error:  # pickle raises what it likes
    raise ValueError(
      f'the family {name} cannot be pickled ({error}); give it fields of plain'
      " data, or use worker='thread'"
    ) from error
