"""The child's side of a process room: `python worker.py in out parent`.

Reads framed pickles from the descriptor `in`, first an order and then calls;
writes framed JSON to `out`. What the environment prints goes to neither.
Started by `agentrl/rollout/child.py`; imports little, since rooms wait for it.
"""

import contextlib
import ctypes
import functools
import os
import pickle
import signal
import sys

_DIE_WITH_PARENT = 1  # of prctl


def main(receive: int, send: int, parent: int) -> None:
  if sys.platform == 'linux':  # elsewhere the end of the pipe has to do
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
  if os.getppid() != parent:  # it was gone before
    return
  _keep(receive, send)
  path, family, characters = pickle.loads(read(receive))
  sys.path[:] = path
  from agentrl.rollout.answers import Local, told

  try:
    local = Local(pickle.loads(family), characters)
  except BaseException as error:
    local = _Nobody(
      f'the family cannot be loaded in a process of its own ({error!r}); let'
      " it stand in a module that Python can import there, or use 'thread'"
    )
  while order := read(receive):
    name, *args = pickle.loads(order)
    if name == 'close':
      break
    call = {'reset': local.reset, 'step': local.step}[name]
    write(send, told(functools.partial(call, *args)))
  local.close()


class _Nobody:
  """Says why there is no environment."""

  def __init__(self, why: str):
    self._why = why

  def reset(self, task: dict, seed: int) -> str:
    raise ValueError(self._why)

  def step(self, message: str) -> str:
    raise ValueError(self._why)

  def close(self) -> None:
    pass


def _keep(*handles: int) -> None:
  """No process that the environment starts gets the pipes: they would stay
  open, and nobody would hear that this one has ended."""

  def lose():
    for handle in handles:
      with contextlib.suppress(OSError):
        os.close(handle)

  for handle in handles:
    os.set_inheritable(handle, False)
  os.register_at_fork(after_in_child=lose)


def read(handle: int) -> bytes:
  """A frame: its length in 4 bytes, and it; nothing once the pipe ended."""
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
