"""Threads for calls that may hang, with a timeout for their callers.

A thread cannot be stopped: one whose call times out is abandoned and replaced.
The threads are daemons, so a program can exit while they hang, unlike with
concurrent.futures.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from absl import logging

_POLL = 0.05  # seconds between two looks at a call that has not begun


class Late(Exception):
  """Call that timed out, or was skipped after earlier timeouts."""


class Task:
  """Submitted call."""

  def __init__(self, call: Callable[[], Any]):
    self.call, self.done = call, threading.Event()
    self.began: float | None = None
    self.abandoned = False
    self.value: Any = None
    self.error: BaseException | None = None


class Workers:
  """A few threads; calls begin in the order of submission."""

  def __init__(self, threads: int, seconds: float):
    """Stores the limits; `submit` starts threads.

    Args:
      threads: concurrent calls
      seconds: timeout of a call
    """
    self._threads, self._seconds = threads, seconds
    self._queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    self._running = 0
    self._late = 0  # in a row
    self._closed = False

  @property
  def _dead(self) -> bool:
    """Whether too many consecutive calls timed out to make another."""
    return self._late >= 2 * self._threads

  def submit(self, call: Callable[[], Any]) -> Task:
    task = Task(call)
    if not self._dead:
      self._queue.put(task)
      if self._running < self._threads:
        self._start()
    return task

  def result(self, task: Task) -> Any:
    """Waits for a call's result. Call it in the order of submission.

    Raises:
      Late: it timed out, or was skipped. Also raises what the call raised.
    """
    while not task.done.wait(self._patience(task)):
      if task.began is None:
        if self._dead:
          task.abandoned = True
          raise Late(f'skipped after {self._late} timeouts in a row')
      elif time.monotonic() - task.began >= self._seconds:
        self._leave(task)
        raise Late(f'timed out after {self._seconds:g} seconds')
    self._late = 0
    if task.error is not None:
      raise task.error
    return task.value

  def close(self) -> None:
    """Lets the threads end, without waiting for hanging ones."""
    self._closed = True
    for _ in range(self._running):
      self._queue.put(None)

  def _patience(self, task: Task) -> float:
    if task.began is None:
      return 0.0 if self._dead else _POLL
    return max(0.0, task.began + self._seconds - time.monotonic())

  def _leave(self, task: Task) -> None:
    """Abandons the thread of a late call and starts another."""
    task.abandoned = True
    self._late += 1
    if self._dead:
      logging.warning(
        'A judge timed out %d times in a row and is not asked again.',
        self._late,
      )
    else:
      self._start(replaces=True)

  def _start(self, replaces: bool = False) -> None:
    self._running += not replaces
    threading.Thread(target=self._live, daemon=True).start()

  def _live(self) -> None:
    while (task := self._queue.get()) is not None:
      if self._closed or task.abandoned:
        continue
      task.began = time.monotonic()
      try:
        task.value = task.call()
      except BaseException as error:
        task.error = error
      task.done.set()
      if task.abandoned:
        return  # another thread has taken its place
