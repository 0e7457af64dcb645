"""Tickets that other jobs collect, and the board they hang on.

  learner            Board.offer(order) ──► Future of (batch, metrics)
                        │        ▲
  sampler jobs          ▼        │          any number; they join, leave and die
                     work(line, collect)

An order is given to one sampler at a time. If that one is lost, the order goes
to the next, and makes the same batch there, since all that it depends on is in
it and in the version it names. So each order is done exactly once, whoever
dies: what a lost sampler had sent of its batch is not looked at. One that a
sampler has failed waits for another that has not, since the fault may be of its
machine.

What goes over a line is pickled: both ends are of one run.
"""

import collections
import contextlib
import functools
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import logging

from agentrl.runtime import threads
from agentrl.runtime.line import Door, Line
from agentrl.types import Attempts, Batch, Metrics

SILENCE = 60.0  # seconds without a sign of life after which one is lost
BEAT = 5.0  # seconds between the signs of life of one that collects
TRIES = 3  # failures of an order after which its error is the learner's
_LOOK = 0.2  # seconds until an idle line is looked at again


class Order(NamedTuple):
  """What a sampler job collects."""

  stage: str
  step: int  # the ticket
  version: int  # step of the state that plays
  attempts: Attempts  # host arrays
  start: int = 0  # of the stage
  # (role, version of its own stream), published before the order is given.
  versions: tuple[tuple[str, int], ...] = ()


class Collected(NamedTuple):
  """What a sampler job made of an order: host arrays."""

  batch: Batch
  metrics: Metrics
  seconds: float  # that it took


class DamagedWeights(ValueError):
  """Error of a sampler job: the version is not as it was published."""


class Board:
  """Orders that wait for samplers, open until `close`."""

  def __init__(
    self,
    host: str,
    greeting: Any,
    *,
    mend: Callable[[Order], None] = lambda order: None,
    silence: float = SILENCE,
  ):
    """Opens a door for samplers.

    Args:
      host: address of this machine
      greeting: what samplers must be of: the run, its config, this package
      mend: publishes the version of an order again
      silence: seconds without a sign of life after which a sampler is lost
    Raises:
      OSError: the host is no address of this machine.
    """
    self._greeting, self._mend, self._silence = greeting, mend, silence
    self._changed = threading.Condition()
    self._waiting: collections.deque[tuple[Order, Future]] = collections.deque()
    self._failed: dict[int, list[Line]] = {}  # by step: who has failed it
    self._lines: set[Line] = set()  # of the samplers
    self._closed = self._ended = False
    self._counts: collections.Counter[str] = collections.Counter()
    self._door = Door(host, self._serve)
    self.address, self.key = self._door.address, self._door.key

  def __enter__(self) -> 'Board':
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def end(self) -> None:
    """Sends the samplers home at `close`; else they are to wait."""
    self._ended = True

  def close(self) -> None:
    """Gives no order any more."""
    with self._changed:
      self._closed = True
      self._changed.notify_all()
    end = time.monotonic() + 1.0  # an idle one is told
    while self.connected and time.monotonic() < end:
      time.sleep(0.01)
    self._door.close()

  @property
  def connected(self) -> int:
    """Number of samplers."""
    return len(self._lines)

  def offer(self, order: Order) -> 'Future[Collected]':
    """Hangs an order up; the future is cancelled to take it down."""
    future: Future[Collected] = Future()
    with self._changed:
      self._waiting.append((order, future))
      self._changed.notify_all()
    return future

  def taken(self) -> dict[str, int]:
    """Returns counts of 'lost' samplers and 'damaged' weights since then."""
    with self._changed:
      counts, self._counts = self._counts, collections.Counter()
    return {name: counts[name] for name in ('lost', 'damaged')}

  # In a thread of each sampler.

  def _serve(self, line: Line) -> bool:
    line.limit(self._silence)
    theirs = pickle.loads(line.receive())
    if theirs != self._greeting:
      text = (
        'a sampler must have the version of agentrl and the config of its'
        f' learner, {self._greeting}, got {theirs}; install that version, or'
        " name the learner's folder"
      )
      line.send(pickle.dumps(('refused', text)))
      return False
    line.send(pickle.dumps(('welcome', None)))
    with self._changed:
      self._lines.add(line)
    try:
      while (taken := self._next(line)) is not None:
        self._give(line, *taken)
      if self._ended:
        line.send(pickle.dumps(('end', None)))
    except (OSError, EOFError):
      logging.info('a sampler left')
    finally:
      with self._changed:
        self._lines.remove(line)
    return False

  def _next(self, line: Line) -> 'tuple[Order, Future[Collected]] | None':
    """Waits for an order; None: there will be none.

    Raises:
      EOFError: the sampler has left.
    """
    while True:
      with self._changed:
        if self._closed:
          return None
        if taken := self._pick(line):
          return taken
        self._changed.wait(_LOOK)
      if line.ready(0):  # nothing is to be said now
        raise EOFError

  def _pick(self, line: Line) -> 'tuple[Order, Future[Collected]] | None':
    """Takes the first order down that is for this sampler."""
    there = (x for x in self._waiting if not x[1].cancelled())
    self._waiting = collections.deque(there)
    for at, taken in enumerate(self._waiting):
      failed = set(self._failed.get(taken[0].step, ()))
      if line not in failed or failed >= self._lines:
        del self._waiting[at]
        return taken
    return None

  def _give(self, line: Line, order: Order, future: Future) -> None:
    """Has an order done; one that is not done waits for the next sampler."""
    done = False
    try:
      line.send(pickle.dumps(('order', order)))
      while True:
        kind, what = pickle.loads(line.receive())
        if kind != 'alive':
          break
        if future.cancelled():
          raise EOFError  # the sampler ends what it does when we hang up
      done = self._settle(line, order, future, kind, what)
    except Exception as error:  # it hung up, fell silent, or talks nonsense
      if not future.cancelled():
        self._count('lost')
        logging.warning(
          'the sampler of batch %d was lost; another takes it', order.step
        )
      raise EOFError from error
    finally:
      if not done:
        with self._changed:
          self._waiting.appendleft((order, future))
          self._changed.notify_all()

  def _settle(
    self, line: Line, order: Order, future: Future, kind: str, what: Any
  ) -> bool:
    """Takes what a sampler answered; returns whether the order is done."""
    if kind == 'batch':
      with contextlib.suppress(InvalidStateError):  # it was taken down
        future.set_result(what)
      self._failed.pop(order.step, None)
      return True
    if isinstance(what, DamagedWeights):
      self._count('damaged')
      logging.warning('%s; it is published again', what)
      self._mend(order)
    with self._changed:
      failed = self._failed.setdefault(order.step, [])
      failed.append(line)
    if len(failed) < TRIES:
      logging.warning('batch %d failed: %s', order.step, what)
      return False
    with contextlib.suppress(InvalidStateError):
      future.set_exception(what)
    return True

  def _count(self, name: str) -> None:
    with self._changed:
      self._counts[name] += 1


def greet(line: Line, greeting: Any) -> None:
  """Introduces a sampler.

  Raises:
    ValueError: the learner is of another run or version.
  """
  line.send(pickle.dumps(greeting))
  kind, text = pickle.loads(line.receive())
  if kind == 'refused':
    raise ValueError(text)


def work(
  line: Line,
  collect: Callable[[Order], tuple[Batch, Metrics]],
  stopping: Callable[[], None],
  halted: threading.Event,
) -> None:
  """Collects what a learner orders, until it has no more.

  Args:
    collect: returns host arrays; what it raises is told to the learner
    stopping: raises when the sampler is to end
    halted: set while what is being collected is needed no more
  Raises:
    EOFError, OSError: the learner is gone.
  """
  while True:
    while not line.ready(_LOOK):
      stopping()
    kind, order = pickle.loads(line.receive())
    if kind == 'end':
      return
    began = time.monotonic()
    with _running(functools.partial(collect, order), halted) as call:
      answer = _with_beats(line, call, stopping)
    if isinstance(answer, Exception):
      line.send(pickle.dumps(('failed', _sendable(answer))))
      continue
    batch, metrics = answer
    made = Collected(batch, metrics, time.monotonic() - began)
    line.send(pickle.dumps(('batch', made), protocol=5))


@contextlib.contextmanager
def _running(
  call: Callable[[], Any], halted: threading.Event
) -> Iterator[Future]:
  """Calls in a thread, which has ended when this is left."""
  future = threads.start(call)
  try:
    yield future
  finally:
    halted.set()
    futures.wait([future])
    halted.clear()


def _with_beats(
  line: Line, future: Future, stopping: Callable[[], None]
) -> Any:
  """Waits for a call, and gives signs of life meanwhile.

  Returns: what it returns, or the Exception it raises
  """
  beat = time.monotonic()
  while True:
    try:
      return future.result(timeout=_LOOK)
    except TimeoutError as error:
      if future.done():  # its own
        return error
    except Exception as error:
      stopping()  # what was asked to end was not at fault
      return error
    stopping()
    if time.monotonic() - beat > BEAT:
      beat = time.monotonic()
      line.send(pickle.dumps(('alive', None)))


def _sendable(error: Exception) -> Exception:
  """Returns the error, or its words where it cannot be pickled."""
  try:
    pickle.loads(pickle.dumps(error))
  except Exception:
    return RuntimeError(f'{type(error).__name__}: {error}')
  return error


def host_arrays(tree: Any) -> Any:
  """Brings arrays to the host."""
  return jax.tree.map(np.asarray, jax.device_get(tree))
