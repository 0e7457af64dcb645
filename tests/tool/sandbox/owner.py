"""A process with something of each kind that a sandboxed program could reach.

It prints what it has as JSON, waits for a line, takes it all away again, and
prints what is left of it. Run with a secret in the environment, and given a
folder of its own, a key and a free one.
"""

import ctypes
import json
import os
import pathlib
import pty
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SHMGET, SHMCTL, SEMGET, SEMCTL = 29, 31, 64, 66
MSGGET, MSGSND, MSGCTL = 68, 69, 71
MQ_OPEN, MQ_UNLINK, ADD_KEY, KEYCTL = 240, 241, 248, 250
_CREATE = 0o1600  # IPC_CREAT, for the user


def call(number, *args):
  args = [ctypes.c_long(x) if isinstance(x, int) else x for x in args]
  return libc.syscall(ctypes.c_long(number), *args)


def new(free, shared, queue):
  """Kinds of what was made and not taken away, which is done here."""
  out = ['queue'] * (call(MQ_UNLINK, queue + b'-left') == 0)
  for name, get, arguments, remove, more in (
    ('memory', SHMGET, (0, 0), SHMCTL, (0, None)),
    ('semaphores', SEMGET, (0, 0), SEMCTL, (0, 0)),
    ('messages', MSGGET, (0,), MSGCTL, (0, None)),
  ):
    if (number := call(get, free, *arguments)) >= 0:
      call(remove, number, *more)
      out.append(name)
  for path in pathlib.Path('/dev/shm').glob(f'{shared.name}.left'):
    path.unlink()
    out.append(path.name)
  return out


def main(folder, key, free, *_):
  signals = []
  signal.signal(signal.SIGURG, lambda *_: signals.append(1))
  secret, key, free = os.environ['SECRET'], int(key), int(free)
  place = pathlib.Path(folder)
  (place / 'canary').write_text('canary')
  os.setxattr(place / 'canary', 'user.there', b'x')
  os.mkfifo(place / 'pipe')
  shared = pathlib.Path('/dev/shm', f'test-{key}')
  shared.write_text(secret)
  queue = f'test-{key}'.encode()
  memory = call(SHMGET, key, 4096, _CREATE)
  semaphores = call(SEMGET, key, 1, _CREATE)
  messages = call(MSGGET, key, _CREATE)
  call(MSGSND, messages, (1).to_bytes(8, 'little') + b'secret', 6, 0)
  call(MQ_OPEN, queue, os.O_CREAT | os.O_RDWR, 0o600, None)
  known = call(ADD_KEY, b'user', secret.encode(), b'x', 1, -4)
  _, terminal = pty.openpty()
  given = dict(
    victim=os.getpid(),
    group=os.getpgrp(),
    user=os.getuid(),
    secret=secret,
    canary=str(place / 'canary'),
    pipe=str(place / 'pipe'),
    terminal=os.ttyname(terminal),
    key=key,
    free=free,
    shared=shared.name,
    queue=queue.decode(),
    memory=memory,
    semaphores=semaphores,
    messages=messages,
  )
  print(json.dumps(given), flush=True)
  sys.stdin.readline()
  shared_text = shared.read_text() if shared.exists() else None
  attributes = os.listxattr(place / 'canary')
  left = dict(
    signals=len(signals),
    memory=call(SHMCTL, memory, 0, None),
    semaphores=call(SEMCTL, semaphores, 0, 0),
    messages=call(MSGCTL, messages, 0, None),
    queue=call(MQ_UNLINK, queue),
    shared=shared_text == secret,
    attributes=[x for x in attributes if x.startswith('user')],
    beside=sorted(os.listdir(place)),
  )
  left['new'] = new(free, shared, queue)
  call(KEYCTL, 3, known)
  shared.unlink(missing_ok=True)
  print(json.dumps(left), flush=True)


if __name__ == '__main__':
  main(*sys.argv[1:])
