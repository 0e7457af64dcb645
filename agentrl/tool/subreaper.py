"""Subreaper: ends every descendant of a process, even ones that detach.

A signal to a process group misses processes that changed group or session, such
as an interactive shell's jobs and all daemons. A subreaper (prctl(2)) becomes
the parent of all orphans below it, so it finds them. Here it has one child.
Once the child has ended, or the subreaper's parent tells it to or dies, all
processes below it are killed, and it ends with the child's status.

Without support (not Linux) only the child's group is killed. Run as a program
it wraps a command: `python subreaper.py parent command ...`.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence

_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl
_PATIENCE = 5.0  # seconds for the kernel to end what was killed
_PAUSE = 0.005  # seconds until it is looked for again


def command(words: Sequence[str]) -> list[str]:
  """Wraps a command in a subreaper that ends with the starting thread.

  Start it in a new session (start_new_session=True), so that Ctrl-C and other
  signals to a process group reach only the caller, which ends the command.
  """
  return [sys.executable, '-I', '-S', __file__, str(os.getpid()), *words]


def end(subreaper: int) -> None:
  """Tells a subreaper, not yet waited for, to kill all below it."""
  with contextlib.suppress(ProcessLookupError):
    os.kill(subreaper, signal.SIGTERM)
    os.kill(subreaper, signal.SIGCONT)  # if its child has stopped it


def below(parent: int, handles: Sequence[int] = ()) -> None:
  """Returns in a child with its own session; this process never returns.

  Args:
    parent: the process that started this one.
    handles: open files of the child alone; this process closes them, and its
      standard streams.
  """
  before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else no child is waited for
  _prctl(_SUBREAPER, 1)
  _prctl(_DEATH_SIGNAL, signal.SIGTERM)
  if os.getppid() != parent:  # it was gone before
    os._exit(1)
  own = os.getpid()
  child = os.fork()
  if child == 0:
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != own:
      os._exit(1)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return
  nothing = os.open(os.devnull, os.O_RDWR)
  for handle in (0, 1):
    os.dup2(nothing, handle)
  for handle in handles:
    os.close(handle)
  end_as(_sweep(child, _watch(child)))


def _prctl(option: int, value: int) -> None:
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _watch(child: int) -> int | None:
  """Waits for the child's status; None: asked to end while it runs."""
  while signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGCHLD:
    with contextlib.suppress(ChildProcessError):
      for process, status in _ended():
        if process == child:
          return status
  return None


def _sweep(child: int, status: int | None) -> int:
  """Kills children, adopting theirs, until none is left; returns the status.

  Never raises, and eventually leaves processes that cannot be killed (of
  another user, or stuck in the kernel).
  """
  # Numbers go round: the child's, if it is free, is not yet another's.
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(child, signal.SIGKILL)
  over = time.monotonic() + _PATIENCE
  with contextlib.suppress(ChildProcessError):  # none is left
    while time.monotonic() < over:
      for process, how in _ended():
        status = how if process == child else status
      for process in _children():
        with contextlib.suppress(ProcessLookupError, PermissionError):
          os.kill(process, signal.SIGKILL)
      time.sleep(_PAUSE)
  return signal.SIGKILL if status is None else status


def _ended() -> Iterator[tuple[int, int]]:
  """Yields each ended child once, with its status.

  Raises:
    ChildProcessError: without children, running or ended.
  """
  while (ended := os.waitpid(-1, os.WNOHANG))[0]:
    yield ended


def _children() -> list[int]:
  if sys.platform != 'linux':
    return []
  everybody = [int(name) for name in os.listdir('/proc') if name.isdigit()]
  return [process for process in everybody if _parent(process) == os.getpid()]


def _parent(process: int) -> int | None:
  """Returns the parent of a process; None if it has ended."""
  try:
    with open(f'/proc/{process}/stat', 'rb') as file:
      return int(file.read().rpartition(b')')[2].split()[1])
  except OSError:
    return None


def end_as(status: int) -> None:
  """Ends this process with another's status, without a core dump."""
  code = os.waitstatus_to_exitcode(status)
  if code < 0:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # SIGKILL cannot be set
      signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    os.kill(os.getpid(), -code)
  os._exit(code)


def main(parent: str, *words: str) -> None:
  below(int(parent))
  try:
    os.execvp(words[0], words)
  except OSError as error:
    print(f'{words[0]}: {error.strerror}', file=sys.stderr, flush=True)
    os._exit(127)


if __name__ == '__main__':
  main(*sys.argv[1:])
