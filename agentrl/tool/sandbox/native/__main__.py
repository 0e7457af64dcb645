"""Runs code behind all ordered layers, or not at all.

  python -s -S -P agentrl/tool/sandbox/native/__main__.py < order

The order is a marshalled dictionary:

  code      the program
  layers    of sandbox.LAYERS; a failing one stops everything
  see       files and folders that can be read
  hidden    except these
  packages  folders to import from, besides the standard library
  memory    bytes of address space
  folder    bytes that fit into the folder of the code
  threads   limit
  seconds   of computing allowed, should the outer timer fail
  parent    the calling process

The code's output goes to the output; the exit status says how it ended
(`program.ENDS`). There are two processes: the outer one waits, the inner one
confines itself and then runs the code. Time and output are limited by
`agentrl/tool/sandbox/process.py`. Imports little, since every call waits for
it.
"""

import ctypes
import marshal
import os
import resource
import signal
import sys
from types import SimpleNamespace as Order

HERE = os.path.abspath(__file__ + '/../../../../..')
sys.path.insert(0, HERE)
from agentrl.tool.sandbox.native import (  # noqa: E402
  bpf,
  landlock,
  namespaces,
  privileges,
  program,
  seccomp,
)

sys.path.remove(HERE)

_DIE_WITH_PARENT, _DUMPABLE = 1, 4  # of prctl


def main() -> None:
  order = Order(**marshal.load(sys.stdin.buffer))
  libc = ctypes.CDLL(None, use_errno=True)
  libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
  if os.getppid() != order.parent:  # it was gone before
    os._exit(program.ENDS['refused'])
  # A stop signal is delivered only after the inner process has started.
  signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
  own_user = 'user' in order.layers
  order.user = namespaces.user_of(os.getpid()) if own_user else None
  order.others = _others(order)
  complaint, complain = os.pipe()
  try:
    child = _fork(libc, order, complain)
  except OSError as error:
    _refuse(str(error))
  signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
  signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
  os.close(complain)
  reason = os.read(complaint, 4096).decode()  # nothing, once the code may run
  ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
  if reason:
    _refuse(reason)
  # The code may choose its status: it must not look as if it had not run.
  ended = program.ENDS['error'] if ended == program.ENDS['refused'] else ended
  os._exit(ended if ended >= 0 else 128 - ended)


def _refuse(why: str) -> None:
  print(why, flush=True)
  os._exit(program.ENDS['refused'])


def _fork(libc: ctypes.CDLL, order: Order, complain: int) -> int:
  def inner():
    _inner(libc, order, complain)

  if 'namespaces' in order.layers:
    return namespaces.fork(libc, inner, order.user)
  child = os.fork()
  if not child:
    inner()
  return child


def _inner(libc: ctypes.CDLL, order: Order, complain: int) -> None:
  """Runs the inner process; never returns."""
  libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
  os.dup2(complain, 3)
  try:
    _shut_in(libc, order)
  except OSError as error:
    os.write(3, str(error).encode())
    os._exit(program.ENDS['refused'])
  os.close(3)
  os._exit(program.run(order.code, order.packages))


def _shut_in(libc: ctypes.CDLL, order: Order) -> None:
  """Applies every layer, the widest first, since each removes rights."""
  os.umask(0o022)
  # No input, one output for both, and where to complain (3).
  os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
  os.dup2(1, 2)
  os.closerange(4, 4096)
  folder = 'namespaces' in order.layers
  if folder:
    namespaces.enter(libc, order.see, order.hidden, order.folder)
  else:
    os.chdir('/')
  _limit(order)
  privileges.gain_none(libc)
  if 'landlock' in order.layers:
    change = [namespaces.BOX, os.devnull] if folder else []
    landlock.restrict(libc, order.see, order.hidden, change)
  if 'user' in order.layers:
    user = namespaces.NOBODY if folder else order.user
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
  privileges.drop(libc)
  libc.prctl(_DUMPABLE, 0, 0, 0, 0)  # no core file either
  libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # a new user had cleared it
  signal.signal(signal.SIGTERM, signal.SIG_DFL)
  signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
  if 'seccomp' in order.layers:
    bpf.install(libc, lambda x: seccomp.program(x, folder))


def _limit(order: Order) -> None:
  """Sets hard limits of the process.

  The limit of CPU time exceeds what all threads can use: wall time decides.
  """
  seconds = (int(order.seconds) + 2) * order.threads
  for kind, most in (
    (resource.RLIMIT_AS, order.memory),
    (resource.RLIMIT_CPU, seconds),
    (resource.RLIMIT_FSIZE, order.folder),
    (resource.RLIMIT_NPROC, order.others + order.threads),
    (resource.RLIMIT_STACK, 8 << 20),
    (resource.RLIMIT_NOFILE, 64),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_MEMLOCK, 0),
    (resource.RLIMIT_MSGQUEUE, 0),
  ):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _others(order: Order) -> int:
  """Counts foreign threads that count against the run's limit.

  The kernel counts threads per user; inside a user namespace, since Linux 5.14,
  only the ones inside.
  """
  if 'namespaces' in order.layers and namespaces.release() >= (5, 14):
    return 0
  if order.user not in (None, namespaces.NOBODY):
    return 0
  user = os.getuid() if order.user is None else order.user
  return sum(
    _threads(pid, user) for pid in os.listdir('/proc') if pid.isdigit()
  )


def _threads(process: str, user: int) -> int:
  """Counts the threads of a user's process; 0 for others, or if it ended."""
  try:
    with open(f'/proc/{process}/status', encoding='utf-8') as lines:
      fields = dict(line.split(':', 1) for line in lines)
  except OSError:
    return 0
  own = int(fields['Uid'].split()[0]) == user
  return int(fields['Threads']) if own else 0


main()
