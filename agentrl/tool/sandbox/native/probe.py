"""One escape of each kind, tried from inside; prints those that worked.

Whoever runs this puts CANARY in front: a file of the host that everybody may
read and write.
"""

import mmap
import os
import socket
import threading

CANARY = globals().get('CANARY', '')
MUCH = 1 << 34  # more bytes than the limit
MANY = 64  # more threads than the limit


def network():
  socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('8.8.8.8', 9))


def files_read():
  open(CANARY).close()


def files_write():
  open(CANARY, 'a').close()


def processes():
  if not os.fork():
    os._exit(0)


def processes_threads():
  done = threading.Event()
  threading.stack_size(1 << 16)  # else memory may end first
  try:
    for _ in range(MANY):
      threading.Thread(target=done.wait, daemon=True).start()
  finally:
    done.set()


def memory():
  mmap.mmap(-1, MUCH)


def worked(escape):
  try:
    escape()
  except (OSError, RuntimeError, MemoryError):
    return False
  return True


if __name__ == '__main__':
  tried = [network, files_read, files_write]
  tried += [processes, processes_threads, memory]
  print('broken:', *{f.__name__.split('_')[0] for f in tried if worked(f)})
