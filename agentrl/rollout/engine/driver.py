"""Generator that many threads ask: one thread drives it, round after round.

    driver = GeneratorDriver(engine)
    future = driver.submit(tokens, how)   # in any thread: Future[Completion]
    driver.round()                        # in the one that drives

Requests that arrive during a round join the next one. A future that is
cancelled takes its request back.
"""

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.engine.generator import Generator
from agentrl.service.base import ServiceFault


class GeneratorDriver:
  """Queue in front of a generator, open until `close`."""

  def __init__(self, generator: Generator):
    self.generator = generator
    self._waiting: dict[int, Future[Completion]] = {}  # by sequence
    self._sequences = itertools.count()
    self._orders: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
    self._lock = threading.Lock()  # of _open: no order comes after the last
    self._open = True

  def order(self, what: Callable[[], Any]) -> bool:
    """Queues a call for the driving thread; False once it is closed.

    What it raises, `round` raises.
    """
    with self._lock:
      if self._open:
        self._orders.put(what)
      return self._open

  def submit(
    self, context: Sequence[int], how: SamplingParams
  ) -> Future[Completion]:
    """Requests a message after a context; the future may be cancelled.

    What the generator does not take is the future's exception.
    """
    answer: Future[Completion] = Future()
    if not self.order(lambda: self.begin(context, how, answer)):
      answer.set_exception(ValueError('the generator is closed'))
    return answer

  def close(self, last: Callable[[], Any] = lambda: None) -> None:
    """Takes no more orders after `last`."""
    with self._lock:
      if self._open:
        self._open = False
        self._orders.put(last)

  # In the thread that drives.

  def begin(
    self, context: Sequence[int], how: SamplingParams, answer: Future
  ) -> None:
    """Submits a request whose answer goes to the future."""
    if answer.cancelled():
      return
    sequence = next(self._sequences)
    try:
      self.generator.submit(sequence, context, how)
    except Exception as error:
      _settle(answer, error)
    else:
      self._waiting[sequence] = answer

  def round(self, wait: float | None = None) -> None:
    """Takes orders, then runs the generator for a round.

    An idle one waits for an order first.

    Args:
      wait: seconds at most; None: until one comes.
    """
    if not self.generator.busy:
      try:
        self._orders.get(timeout=wait)()
      except queue.Empty:
        return
    while not self._orders.empty():
      self._orders.get()()
    for sequence in [x for x, f in self._waiting.items() if f.cancelled()]:
      self.generator.cancel(sequence)
      del self._waiting[sequence]
    if self.generator.busy:
      self.generator.dispatch()
      for made in self.generator.collect():
        self.generator.cancel(made.sequence)
        out: Completion | ServiceFault
        if isinstance(made, GenerationFault):
          out = ServiceFault(made.text)
        else:
          out = made
        _settle(self._waiting.pop(made.sequence), out)

  def fail(self, error: Exception) -> None:
    """Fails all requests under way."""
    for sequence, answer in self._waiting.items():
      self.generator.cancel(sequence)
      _settle(answer, error)
    self._waiting.clear()


def _settle(answer: Future, out: Any) -> None:
  """Sets the result or the exception, unless it was cancelled meanwhile."""
  with contextlib.suppress(InvalidStateError):
    if isinstance(out, Exception):
      answer.set_exception(out)
    else:
      answer.set_result(out)
