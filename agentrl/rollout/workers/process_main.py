"""Environment process, child side: `python process_main.py in out parent`.

Two processes: a subreaper, which ends with the trainer or on a signal, and
its child, which runs the environment.

Reads framed pickles from the descriptor `in`, first an order and then calls;
writes framed JSON to `out`. The environment's own output goes to neither.
Started by `agentrl/rollout/workers/process.py`; imports little, since workers
wait for it.
"""

import contextlib
import functools
import os
import pathlib
import pickle
import sys

_HERE = str(pathlib.Path(__file__).parents[3])


def main(receive: int, send: int, parent: int) -> None:
  sys.path.insert(0, _HERE)
  from agentrl.tool import subreaper

  subreaper.below(parent, (receive, send))
  _keep(receive, send)
  path, keep, family, characters = pickle.loads(read(receive))
  # Another interpreter's own packages, and ours by what is imported already.
  own = [x for x in sys.path if x != _HERE] if keep else []
  sys.path[:] = [*path, *own]
  from agentrl.rollout.workers.replies import (
    InProcessEnv,
    encode_reply,
    load_family,
  )

  local = InProcessEnv(load_family(family), characters)
  while order := read(receive):
    name, *args = pickle.loads(order)
    if name == 'close':
      break
    calls: dict = {'reset': local.reset, 'step': local.step}
    call = calls[name]
    write(send, encode_reply(functools.partial(call, *args)))
  local.close()


def _keep(*handles: int) -> None:
  """Keeps the pipes from the environment's child processes.

  A child would hold them open, and the trainer would not see this process end.
  """

  def lose():
    for handle in handles:
      with contextlib.suppress(OSError):
        os.close(handle)

  for handle in handles:
    os.set_inheritable(handle, False)
  os.register_at_fork(after_in_child=lose)


def read(handle: int) -> bytes:
  """Reads a frame, its length in 4 bytes first; empty at the pipe's end."""
  return _exactly(handle, int.from_bytes(_exactly(handle, 4)))


def write(handle: int, data: bytes) -> None:
  rest = memoryview(len(data).to_bytes(4) + data)
  while rest:
    rest = rest[os.write(handle, rest) :]


def _exactly(handle: int, size: int) -> bytes:
  data = b''
  while len(data) < size:
    piece = os.read(handle, size - len(data))
    if not piece:
      return b''
    data += piece
  return data


if __name__ == '__main__':
  main(*map(int, sys.argv[1:]))
