"""Runs a command that changes its folder alone and calls one port alone.

  python -I -S agentrl/tool/sandbox/native/command.py
    apart|shared PORT FOLDER COMMAND...

The command and all that it starts read what this user can read, without root's
privileges and without devices. They change files in FOLDER alone, connect over
TCP to PORT alone, have no other sockets, and can neither signal, trace nor slow
others. Memory, processors and room on the disk are not kept.

Where the system allows it ('shared': even there not) the command has namespaces
of its own: it sees no other process, PORT is this machine's alone, and modes,
owners and times of files outside of FOLDER are kept too. Linux 6.12 or later,
without any privilege.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import sys
import threading

if __name__ == '__main__':  # the package is not there under -I -S
  sys.path.append(os.path.abspath(__file__ + '/../../../../..'))
from agentrl.tool import subreaper
from agentrl.tool.sandbox.native import (
  bpf,
  command_filter,
  landlock,
  namespaces,
  privileges,
  relay,
)

_SCOPED = 6  # version of Landlock that keeps signals in
_DIE_WITH_PARENT = 1  # of prctl
_WRITTEN = '/dev/null', '/dev/zero', '/dev/full'  # devices
_READ = *_WRITTEN, '/dev/random', '/dev/urandom'
# With namespaces: bytes in /dev/shm, and processes with their threads.
_SHARED_MEMORY, _PROCESSES = 1 << 28, 4096
# Of what all processes of a user may have together, others keep a part.
_TOGETHER = resource.RLIMIT_NPROC, resource.RLIMIT_SIGPENDING
_NO_CORE = 1  # bytes: 0 would still start a program that collects cores
_NONE = (
  resource.RLIMIT_MSGQUEUE,
  resource.RLIMIT_NICE,
  resource.RLIMIT_RTPRIO,
)
FAILED = 126  # status where the command was not run


def wrapped(
  port: int, folder: str, words: list[str], apart: bool = True
) -> list[str]:
  """Returns the command line that runs these words.

  Args:
    apart: whether in namespaces of their own, where the system allows it
  """
  how = 'apart' if apart else 'shared'
  head = [sys.executable, '-I', '-S', __file__, how, str(port), folder]
  return head + words


def confine(libc: ctypes.CDLL, port: int, folder: str, apart: bool) -> None:
  """Shuts this process in, for ever.

  Args:
    apart: whether it is in namespaces of its own

  Raises:
    OSError: the kernel cannot.
  """
  if (version := landlock.version(libc)) < _SCOPED:
    raise OSError(f'Landlock {version} is older than {_SCOPED}')
  _limit()
  privileges.gain_none(libc)
  see = landlock.spread('/', ['/dev'])
  own = [namespaces.SHARED] if apart else []
  landlock.restrict(
    libc, [*see, *_READ], (), [folder, *_WRITTEN, *own], [port], ['/']
  )
  privileges.drop(libc)
  bpf.install(libc, lambda x: command_filter.program(x, apart))


def _limit() -> None:
  """Allows no core files and no haste; ends first where memory does."""
  resource.setrlimit(resource.RLIMIT_CORE, (_NO_CORE, _NO_CORE))
  for kind in _NONE:
    resource.setrlimit(kind, (0, 0))
  for kind in _TOGETHER:
    most = resource.getrlimit(kind)[0]
    if most != resource.RLIM_INFINITY:
      resource.setrlimit(kind, (most - most // 4,) * 2)
  with (
    contextlib.suppress(OSError),
    open('/proc/self/oom_score_adj', 'w', encoding='ascii') as score,
  ):
    score.write('1000')


def _run_apart(
  libc: ctypes.CDLL, port: int, folder: str, words: tuple[str, ...]
) -> None:
  """Runs the words in namespaces and ends as they do.

  Returns where the system allows none; nothing was run then.
  """
  here, there = socket.socketpair()

  def inside():
    try:
      here.close()
      _begin(libc, port, folder, words, there)
    finally:
      os._exit(FAILED)

  try:
    first = namespaces.fork(libc, inside, None)
  except OSError:
    return
  there.close()
  ready, handles, *_ = socket.recv_fds(here, 1, 1)
  if not ready:
    os.waitpid(first, 0)
    return
  listener = socket.socket(fileno=handles[0])
  relay_all = threading.Thread(
    target=relay.serve, args=(listener, port), daemon=True
  )
  relay_all.start()
  ended = os.waitpid(first, 0)[1]
  status = here.recv(4)  # nothing, if the words were not run
  subreaper.end_as(struct.unpack('i', status)[0] if status else ended)


def _begin(
  libc: ctypes.CDLL,
  port: int,
  folder: str,
  words: tuple[str, ...],
  outside: socket.socket,
) -> None:
  """Runs as the first process inside; never returns.

  It runs the words in another one: signals that are not handled would not end
  the first, which also waits for those whose parents have ended.
  """
  libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
  try:
    namespaces.keep(libc, folder, _SHARED_MEMORY, _PROCESSES)
    with relay.listen(port) as listener:
      socket.send_fds(outside, [b'.'], [listener.fileno()])
  except OSError:
    os._exit(FAILED)
  try:
    confine(libc, port, folder, apart=True)
    child = os.fork()
  except OSError as error:
    _refuse(words, error)
  if not child:
    _execute(words)
  while (ended := os.wait())[0] != child:
    pass
  outside.send(struct.pack('i', ended[1]))
  os._exit(0)  # and with it all others inside


def _execute(words: tuple[str, ...]) -> None:
  """Becomes the command, in a session of its own if it is in none."""
  with contextlib.suppress(PermissionError):
    os.setsid()
  try:
    os.execvp(words[0], words)
  except OSError as error:
    _refuse(words, error)


def _refuse(words: tuple[str, ...], error: OSError) -> None:
  print(f'{words[0]} was not run: {error}', flush=True)
  os._exit(FAILED)


def main(how: str, port: str, folder: str, *words: str) -> None:
  os.closerange(3, 1 << 20)
  libc = ctypes.CDLL(None, use_errno=True)
  folder = os.path.realpath(folder)
  if how == 'apart':
    _run_apart(libc, int(port), folder, words)
  try:
    confine(libc, int(port), folder, apart=False)
  except OSError as error:
    _refuse(words, error)
  _execute(words)


if __name__ == '__main__':
  main(*sys.argv[1:])
