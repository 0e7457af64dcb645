"""Workers whose environments go on from any turn that was played before.

    timelines = Timelines(make)
    worker = EnvWorker(timelines.open, notify)
    worker.reset(task, seed), worker.step('a'), worker.step('b')
    worker.reset(task, seed), worker.step('a')    # told again, not played
    worker.step('c')                              # another way on

An environment is a function of its task, its seed and the messages it got, so
replies are remembered by these. For a message that is new, an environment is
brought to where it is said: one that stands there, a fork of one, or one that
replays, turn by turn, what was played before. These turns are counted.
"""

import collections
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.env.base import Step
from agentrl.rollout.workers.pool import EnvBackend
from agentrl.rollout.workers.replies import EnvError, InProcessEnv

STANDING = 256  # environments that are kept, at most
Path = tuple[Any, ...]  # (task, seed, message, ...)


class Timelines:
  """Replies of environments of one family, and where environments stand."""

  def __init__(
    self, make: Callable[[], EnvBackend], *, standing: int = STANDING
  ):
    """Keeps at most `standing` environments; others are replayed."""
    self._make, self._most = make, standing
    self._lock = threading.Lock()
    self._replies: dict[Path, str | Step] = {}
    self._standing: dict[Path, EnvBackend] = {}  # the oldest first
    self._spare: list[EnvBackend] = []
    # Turns of environments, those repeated by a replay, and forks.
    self.counts: collections.Counter[str] = collections.Counter()

  def open(self) -> 'TimelineEnv':
    """Returns a backend for a worker."""
    return TimelineEnv(self)

  def forget(self) -> None:
    """Closes all environments and forgets all replies."""
    with self._lock:
      gone = [*self._standing.values(), *self._spare]
      self._replies, self._standing, self._spare = {}, {}, []
      self.counts = collections.Counter()
    for env in gone:
      env.close()

  def reply(self, path: Path, task: Mapping[str, Any]) -> str | Step:
    """Returns the reply at the end of a path, played if it is new."""
    with self._lock:
      known = self._replies.get(path)
    if known is not None:
      return known
    if len(path) == 2:
      env = self._begun()
      reply: str | Step = env.reset(task, path[1])
    else:
      env = self._at(path[:-1], task)
      reply = env.step(path[-1])
      self._count('env_steps')
    self._keep(path, env, reply)
    return reply

  def _begun(self) -> EnvBackend:
    """Returns an environment to be reset."""
    with self._lock:
      return self._spare.pop() if self._spare else self._make()

  def _at(self, path: Path, task: Mapping[str, Any]) -> EnvBackend:
    """Returns an environment that stands at the end of a path."""
    for length in range(len(path), 1, -1):
      if (env := self._taken(path[:length], own=length == len(path))) is None:
        continue
      return self._replayed(env, path, length)
    env = self._begun()
    if env.reset(task, path[1]) != self._replies[path[:2]]:
      raise _drifted()
    return self._replayed(env, path, 2)

  def _taken(self, path: Path, *, own: bool) -> EnvBackend | None:
    """Forks what stands at a path; takes it if it cannot fork and is `own`."""
    with self._lock:
      env = self._standing.get(path)
      if isinstance(env, InProcessEnv) and (copy := env.fork()) is not None:
        self.counts['forks'] += 1
        return copy
      return self._standing.pop(path, None) if own else None

  def _replayed(self, env: EnvBackend, path: Path, length: int) -> EnvBackend:
    """Plays the messages of a path behind its first `length` entries."""
    for end in range(length + 1, len(path) + 1):
      self._count('replayed')
      if env.step(path[end - 1]) != self._replies[path[:end]]:
        raise _drifted()
    return env

  def _keep(self, path: Path, env: EnvBackend, reply: str | Step) -> None:
    """Remembers a reply, and where its environment stands."""
    over = isinstance(reply, Step) and reply.done
    with self._lock:
      self._replies[path] = reply
      # An end is nowhere to go on from; two workers may have played the same.
      if over or path in self._standing:
        self._spare.append(env)
      else:
        self._standing[path] = env
      gone = self._spare[self._most :]
      del self._spare[self._most :]
      if len(self._standing) > self._most:
        gone.append(self._standing.pop(next(iter(self._standing))))
    for env in gone:
      env.close()

  def _count(self, name: str) -> None:
    with self._lock:
      self.counts[name] += 1


class TimelineEnv:
  """The `EnvBackend` of one worker."""

  delayed = False

  def __init__(self, timelines: Timelines):
    self._timelines = timelines
    self._path: Path = ()
    self._task: Mapping[str, Any] = {}

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    return self._go((json.dumps(task, sort_keys=True), seed), task)

  def step(self, message: str) -> Step:
    return self._go((*self._path, message), self._task)

  def _go(self, path: Path, task: Mapping[str, Any]) -> Any:
    reply = self._timelines.reply(path, task)
    self._path, self._task = path, task
    return reply

  def rest(self) -> None:
    """Ends nothing: others may go on from here."""

  def close(self) -> None:
    """Ends nothing: others may go on from here."""

  def kill(self) -> bool:
    """Returns False: what hangs is in another's thread."""
    return False


def _drifted() -> EnvError:
  return EnvError(
    'malformed',
    'a replay must give the replies of before; the environment is not a'
    ' function of its task, its seed and its messages',
  )
