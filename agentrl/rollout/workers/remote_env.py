"""An environment in a cluster, trainer side.

Each reset submits an *episode* as one task of the cluster
(`workers/episodes.py`), and turns travel over the line that it opens. An
environment is a function of its task, its seed and the messages it got, so a
lost worker costs nothing: the episode is submitted again and is told all
messages anew; its replies must be those that the trainer has heard already.
"""

import collections
import concurrent.futures
import contextlib
import json
import pickle
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any

from agentrl.env.base import EnvFamily, Step
from agentrl.rollout.workers.episodes import episode
from agentrl.rollout.workers.executors import Executor
from agentrl.rollout.workers.listener import Listener
from agentrl.rollout.workers.replies import EnvError, decode_reply, described
from agentrl.runtime.line import Line, OversizeError

LOSSES = 3  # of workers that one episode survives
_GRACE = 2.0  # seconds to end in by itself


class Cluster:
  """A cluster, the port it dials back to, and what is played there."""

  def __init__(
    self, executor: Executor, family: EnvFamily, characters: int, callback: str
  ):
    """Opens the port; the executor is closed with it.

    Args:
      executor: of the cluster
      family: must be `sendable`
      characters: most of an observation
      callback: address of this machine that the cluster reaches
    """
    self.executor, self.columns = executor, family.columns
    self.family, self.characters = pickle.dumps(family), characters
    self.listener = Listener(callback)
    self._counts: collections.Counter[str] = collections.Counter()
    self._lock = threading.Lock()  # of the counts

  def submit(self, task: Mapping[str, Any], seed: int, name: str) -> Future:
    """Submits an episode; see `episodes.episode`."""
    where = self.listener.address, self.listener.key
    return self.executor.submit(
      episode, self.family, self.characters, dict(task), seed, *where, name
    )

  def count(self, name: str) -> None:
    with self._lock:
      self._counts[name] += 1

  def taken(self) -> dict[str, int]:
    """Returns what happened since the last call: 'resubmitted' episodes."""
    with self._lock:
      counts, self._counts = self._counts, collections.Counter()
    return {'resubmitted': 0, **counts}

  def close(self) -> None:
    self.listener.close()
    self.executor.close()


class RemoteEnv:
  """One environment in a cluster; see `pool.EnvBackend`."""

  def __init__(self, cluster: Cluster):
    self._cluster = cluster
    # The episode waits for a place in the cluster, or is told anew what it has
    # been told already: time that is not the environment's.
    self.delayed = False
    self._task: tuple[Mapping[str, Any], int] | None = None
    # One more message than replies while one is pending. The first asks for the
    # reset, of which the task itself says more.
    self._messages: list[str] = []
    self._replies: list[str | Step] = []
    self._read = 0  # replies on this line
    self._name = ''  # of the episode
    self._losses = 0
    self._killed = False
    self._line: Line | None = None
    self._future: Future | None = None  # of the task in the cluster
    self._arrival: Future[Line] | None = None
    self._last: Future | None = None  # of the episode before
    self._lock = threading.Lock()  # of the five above

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task as a new episode: -> the first observation.

    Raises:
      EnvError: any but timeout.
      ValueError: the family has no environment there, or the cluster's workers
        do not reach this machine.
    """
    self._leave()
    self._task, self._losses = (dict(task), seed), 0
    self._messages, self._replies = [''], []
    return self._answer(str)

  def step(self, message: str) -> Step:
    """Plays one turn.

    Raises:
      EnvError: any but timeout.
    """
    if self._task is None:
      raise ValueError('no task is under way; call reset before step')
    self._messages.append(message)
    return self._answer(Step)

  def kill(self) -> bool:
    """Ends the episode; a pending call raises."""
    with self._lock:
      self._killed = True
      line, future, arrival = self._line, self._future, self._arrival
    if future is not None:
      future.cancel()  # before it ends by itself: Ray kills what hangs
    if arrival is not None:
      _fail(arrival, 'it was ended')
    if line is not None:
      line.cut()
    return True

  def rest(self) -> None:
    """Ends the episode, whose place another one may have."""
    self._task = None
    self._leave()

  def close(self) -> None:
    """Lets the episode end by itself, briefly."""
    self.rest()
    if self._last is not None and not self._killed:
      concurrent.futures.wait([self._last], timeout=_GRACE)
      self._last.cancel()

  def _answer(self, kind: type[str] | type[Step]) -> Any:
    """Returns the reply to the last message, whatever was lost on the way."""
    out: Any = None
    try:
      while True:
        try:
          out = self._told()
          break
        except (EOFError, OSError) as error:
          self._lose(str(error) or 'its connection was closed')
      if isinstance(out, Exception):
        raise out
      if not isinstance(out, kind):
        raise EnvError('malformed', 'its episode answered another call')
    except (EnvError, ValueError):
      self._task = None
      self._leave()
      raise
    finally:
      self.delayed = False
    self._replies.append(out)
    return out

  def _told(self) -> Any:
    """Tells the episode what it has not been told: the last message's reply.

    Raises:
      EOFError, OSError: its worker was lost.
      EnvError: it answers the same messages otherwise than before.
    """
    line = self._line or self._begin()
    most = 16 * self._cluster.characters + (1 << 20)  # bytes of a reply
    while True:
      self.delayed = self._read < len(self._replies)
      line.send(json.dumps(self._messages[self._read]).encode())
      try:
        data = line.receive(most)
      except OversizeError as error:
        raise EnvError('oversize', f'its episode sent {error}') from error
      out = decode_reply(data, self._cluster.columns, self._cluster.characters)
      self._read += 1
      if self._read > len(self._replies):
        return out
      if out != self._replies[self._read - 1]:
        raise EnvError(
          'crash',
          'its worker was lost, and the same task, seed and messages gave'
          f' another reply {self._read - 1}: {out!r:.200}; environments must be'
          ' a function of them',
        )

  def _begin(self) -> Line:
    """Submits the episode and waits for its line."""
    assert self._task is not None, 'reset has set it'
    self.delayed, self._read = True, 0
    if self._last is not None:  # gives its place, and its process, back first
      concurrent.futures.wait([self._last], timeout=_GRACE)
    name = secrets.token_hex(16)
    arrival = self._cluster.listener.expect(name)
    try:
      with self._lock:
        if self._killed:
          raise EnvError('timeout', 'it was ended')
        self._arrival = arrival
      try:
        future = self._cluster.submit(*self._task, name)
      except Exception as error:  # a cluster raises what it likes
        raise ConnectionError(described(error)) from error
      with self._lock:
        self._future, killed = future, self._killed
      if killed:
        future.cancel()
      future.add_done_callback(lambda done: _ended(done, arrival))
      line = arrival.result()
    except BaseException:
      self._cluster.listener.forget(name)
      raise
    with self._lock:
      self._line, killed = line, self._killed
    if killed:
      line.cut()
    self._name = name  # expected on: if it dials again, it was lost
    return line

  def _lose(self, why: str) -> None:
    """Counts a loss, unless it is one too many."""
    future = self._future
    self._leave()
    # The cluster itself may know more, and play it again unless it is told.
    if future is not None and not future.cancel():
      why = _failure(future) or why
    if self._killed:
      raise EnvError('timeout', 'it was ended before it answered')
    if self._losses == LOSSES:
      if not self._cluster.listener.met:
        host, port = self._cluster.listener.address
        raise ValueError(
          'host.cluster must have workers that import agentrl and reach'
          f' {host}:{port}, got {why}; install agentrl there, and set'
          " host.callback to this machine's address in their network"
        )
      raise EnvError('crash', f'its worker was lost {LOSSES + 1} times: {why}')
    self._losses += 1
    self._cluster.count('resubmitted')

  def _leave(self) -> None:
    """Closes the line, and with it the episode."""
    with self._lock:
      line, self._line = self._line, None
      self._last = self._future or self._last
      self._future = self._arrival = None
    if line is not None:
      self._cluster.listener.forget(self._name)
      line.close()


def _ended(task: Future, arrival: Future[Line]) -> None:
  """Takes notice that the task of an episode has ended, however."""
  why = _failure(task)
  if not _fail(arrival, why or 'it ended before it was heard of') and why:
    # The cluster knows of a lost worker before its connection does.
    with contextlib.suppress(ConnectionError):
      arrival.result().cut()


def _failure(task: Future) -> str:
  """Returns why a task failed; '' if it did not, or has not ended."""
  if task.cancelled():
    return 'it was cancelled'
  error = task.exception() if task.done() else None
  return '' if error is None else described(error)


def _fail(arrival: Future[Line], why: str) -> bool:
  """Ends the wait for a line; False: it is over already."""
  with contextlib.suppress(InvalidStateError):
    arrival.set_exception(ConnectionError(why))
    return True
  return False
