"""Runs a command that changes its folder alone and calls one port alone.

  python -I -S agentrl/tool/sandbox/native/command.py PORT FOLDER COMMAND...

The command and all that it starts read what this user can read. They change
the content and names of files in FOLDER alone, connect over TCP to PORT and to
no other, on whatever machine, have no other sockets, and can neither signal nor
trace others. Memory, computing, and modes and times of files are not kept.
Linux 6.12 or later, without any privilege.
"""

import ctypes
import os
import sys

_SCOPED = 6  # version of Landlock that keeps signals in
_NO_NEW_PRIVILEGES = 38  # of prctl
_DEVICES = '/dev/null', '/dev/zero', '/dev/full', '/dev/tty'
FAILED = 126  # status where the command was not run


def wrapped(port: int, folder: str, words: list[str]) -> list[str]:
  """The command line that runs these words."""
  return [sys.executable, '-I', '-S', __file__, str(port), folder, *words]


def confine(port: int, folder: str) -> None:
  """Shuts this process in, for ever.

  Raises:
    OSError: the kernel cannot.
  """
  # Beside this file, since the package is not there under -I -S.
  sys.path.insert(0, os.path.abspath(__file__ + '/../../../../..'))
  from agentrl.tool.sandbox.native import landlock, seccomp

  libc = ctypes.CDLL(None, use_errno=True)
  if (version := landlock.version(libc)) < _SCOPED:
    raise OSError(f'Landlock {version} is older than {_SCOPED}')
  libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
  landlock.restrict(libc, ['/'], (), [folder, *_DEVICES], [port])
  seccomp.install(libc, seccomp.tcp_only)
  del sys.path[0]


def main(port: str, folder: str, *words: str) -> None:
  try:
    confine(int(port), folder)
    os.execvp(words[0], words)
  except OSError as error:
    print(f'{words[0]} was not run: {error}', flush=True)
    os._exit(FAILED)


if __name__ == '__main__':
  main(*sys.argv[1:])
