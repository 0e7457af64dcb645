"""An episode in a cluster: one task there, from a reset to the end.

The task dials back to the trainer, resets its environment, and answers each
message it receives until the line is closed. Replies are JSON. Its module is
all that a cluster has to import, so it imports little.
"""

import functools
import json
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.env.base import Step
from agentrl.rollout.workers.replies import (
  EnvError,
  InProcessEnv,
  described,
  encode_reply,
  load_family,
)
from agentrl.runtime.line import Line, dial

_GRACE = 2.0  # seconds for an environment to end by itself
_MESSAGE = 1 << 30  # bytes; the trainer is trusted


def episode(
  family: bytes,
  characters: int,
  task: Mapping[str, Any],
  seed: int,
  address: tuple[str, int],
  key: bytes,
  name: str,
) -> None:
  """Plays one episode for a trainer, in a worker of a cluster.

  An environment whose family says 'process' gets one, beside the worker. Any
  has a thread of its own, so that one that hangs does not hold the worker's.

  Args:
    family: pickled
    characters: most of an observation
    task, seed: of its reset, which is what the first message asks for
    address: host and port of the trainer's listener
    key: secret of the listener
    name: by which the listener knows this episode

  Raises:
    OSError, UnknownPeerError: the trainer cannot be reached.
  """
  line = dial(address, key)
  try:
    line.send(name.encode())
    if not _next_message(line):
      return  # not expected: the cluster plays what the trainer has given up
    player = _Player(line, family, characters)
    player.orders.put(lambda: player.env.reset(task, seed))
    while message := _next_message(line):
      call = functools.partial(player.env.step, json.loads(message))
      player.orders.put(call)
    player.end()
  finally:
    line.close()


def _next_message(line: Line) -> bytes:
  """Waits for a message; empty once the line is lost."""
  try:
    return line.receive(_MESSAGE)
  except (EOFError, OSError):
    return b''


class _Player:
  """The environment, and the thread that it lives in."""

  def __init__(self, line: Line, family: bytes, characters: int):
    self.env = _environment(family, characters)
    self.orders: queue.SimpleQueue[Callable[[], str | Step] | None]
    self.orders = queue.SimpleQueue()
    self._line = line
    self._busy = True
    self._thread = threading.Thread(target=self._play, daemon=True)
    self._thread.start()

  def end(self) -> None:
    """Lets an idle environment shut down; kills one that is busy."""
    self.orders.put(None)
    if not self._busy:
      self._thread.join(_GRACE)
    if self.env.kill():
      self._thread.join(_GRACE)

  def _play(self) -> None:
    while (call := self.orders.get()) is not None:
      self._busy = True
      reply = encode_reply(functools.partial(_careful, call))
      self._busy = False
      try:
        self._line.send(reply)
      except (EOFError, OSError):
        break
    self.env.close()


def _environment(family: bytes, characters: int) -> Any:
  """Returns the environment, in a process if its family wants one."""
  own = load_family(family)
  if own.worker == 'thread':
    return InProcessEnv(own, characters)
  from agentrl.rollout.workers.process import ProcessEnv  # others wait less

  return ProcessEnv(own, characters)


def _careful(call: Callable[[], str | Step]) -> str | Step:
  """Says what a process could not be started for, too."""
  try:
    return call()
  except (EnvError, ValueError):
    raise
  except Exception as error:
    raise EnvError('exception', described(error)) from error
