"""Generator whose messages come from elsewhere, each asked for in a thread."""

import collections
import concurrent.futures
import time
from collections.abc import Callable, Sequence

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.runtime import threads as threads_lib

_WAIT = 0.05  # seconds for a message before environments are looked after
_LEFT = 4  # cancelled requests that may still run, for each thread
# (context, how) -> the message, of any sequence; raises what went wrong.
Generate = Callable[[Sequence[int], SamplingParams], Completion]
Running = concurrent.futures.Future[Completion]


class ThreadedGenerator:
  """See rollout.engine.generator.Generator; open until `close`.

  A request that is cancelled and hangs keeps its own thread, and no other's
  place; nothing waits for it when the program ends.
  """

  def __init__(self, generate: Generate, threads: int):
    """Asks for `threads` messages at a time."""
    self._generate, self._threads = generate, threads
    self._waiting: collections.deque[tuple[int, Callable[[], Completion]]] = (
      collections.deque()
    )
    self._running: dict[Running, int] = {}  # and the sequence of each
    self._left: list[Running] = []  # cancelled

  @property
  def busy(self) -> bool:
    return bool(self._running or self._waiting)

  def submit(
    self, sequence: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    prompt = tuple(context)
    self._waiting.append((sequence, lambda: self._generate(prompt, how)))
    self._fill()

  def dispatch(self) -> None:
    """Requests are on their way already."""

  def collect(self) -> list[Completion | GenerationFault]:
    if self._waiting and not self._running:
      time.sleep(_WAIT)  # what was cancelled has all the room
    done, _ = concurrent.futures.wait(
      self._running, _WAIT, concurrent.futures.FIRST_COMPLETED
    )
    lines = [_of_line(self._running.pop(x), x) for x in done]
    self._fill()
    return lines

  def cancel(self, sequence: int) -> None:
    self._waiting = collections.deque(
      x for x in self._waiting if x[0] != sequence
    )
    for future in [x for x, own in self._running.items() if own == sequence]:
      del self._running[future]
      self._left.append(future)
    self._fill()

  def close(self) -> None:
    self._waiting.clear()

  def _fill(self) -> None:
    """Begins what waits, as far as there is room."""
    self._left = [x for x in self._left if not x.done()]
    while (
      self._waiting
      and len(self._running) < self._threads
      and len(self._left) < _LEFT * self._threads
    ):
      sequence, call = self._waiting[0]
      try:
        future = threads_lib.start(call)
      except RuntimeError:  # the system gives no thread for now
        if not self._running:
          raise
        return
      self._waiting.popleft()
      self._running[future] = sequence


def _of_line(sequence: int, future: Running) -> Completion | GenerationFault:
  if error := future.exception():
    return GenerationFault(sequence, f'{type(error).__name__}: {error}')
  return future.result()._replace(sequence=sequence)
