"""Preemption: Ctrl-C and the notice that a machine will be taken away."""

import signal
import threading
from typing import Any

from absl import logging

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
  """Raised where the run is to end; it can be resumed."""


class Interrupt:
  """While it is entered, the first signal asks a run to stop; a second kills.

    with Interrupt() as asked:
      ...
      asked()  # raises Stopped once there was a signal

  Outside of the main thread, where no signal arrives, it does nothing.
  """

  def __init__(self):
    self._signal: int | None = None
    self._before: dict[int, Any] = {}

  def __call__(self) -> None:
    if self._signal is not None:
      raise Stopped(signal.Signals(self._signal).name)

  def __enter__(self) -> 'Interrupt':
    if threading.current_thread() is threading.main_thread():
      self._before = {s: signal.signal(s, self._hear) for s in SIGNALS}
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _hear(self, number: int, frame) -> None:
    self._signal = number
    for signum, handler in self._before.items():
      signal.signal(signum, handler)  # the next one acts at once
    logging.warning(
      '%s: stopping as soon as the state can be saved; once more to stop at'
      ' once.',
      signal.Signals(number).name,
    )
