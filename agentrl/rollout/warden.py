"""Ends what environments started, should the trainer be killed itself.

The system ends the process of an environment with its trainer, but not what
that process has started. One small program knows the sessions of all rooms;
when its input ends, for whatever reason, it kills those that are left.

Run as a program it is that program: it reads ids of 8 bytes, of a session
that begins, or with a minus of one that is over.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading


class Warden:
  """Started with the first session; may be told of them by any thread."""

  def __init__(self):
    self._process: subprocess.Popen | None = None
    self._lock = threading.Lock()

  def watch(self, session: int) -> None:
    """A session that begins; its id is that of its first process."""
    with self._lock:
      if self._process is None:
        self._process = subprocess.Popen(
          [sys.executable, '-I', '-S', __file__],
          stdin=subprocess.PIPE,
          stdout=subprocess.DEVNULL,
          stderr=subprocess.DEVNULL,
          bufsize=0,
          start_new_session=True,  # no signal to the trainer reaches it
        )
    self._tell(session)

  def forget(self, session: int) -> None:
    """Before another can have the id: while its first process is a zombie."""
    self._tell(-session)

  def close(self) -> None:
    """Kills the sessions that are left."""
    if self._process is not None:
      self._process.stdin.close()
      self._process.wait()

  def _tell(self, session: int) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended
      self._process.stdin.write(session.to_bytes(8, signed=True))


def kill(session: int) -> None:
  """All that is in a session's first group, if there is anything left."""
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(session, signal.SIGKILL)


def main() -> None:
  sessions = set()
  while word := sys.stdin.buffer.read(8):
    session = int.from_bytes(word, signed=True)
    if session > 0:
      sessions.add(session)
    else:
      sessions.discard(-session)
  for session in sessions:
    kill(session)


if __name__ == '__main__':
  main()
