"""Threads that run calls which may hang, and whoever waits for them no longer.

A thread cannot be stopped: one whose call is late is left behind, and another
takes its place. They are daemons, so that a program can end while they hang;
those of concurrent.futures are waited for.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from absl import logging

_POLL = 0.05  # seconds between two looks at a call that has not begun


class Late(Exception):
  """A call that took too long, or was not made since those before it did."""


class Task:
  """A call that was submitted."""

  def __init__(self, call: Callable[[], Any]):
    self.call, self.done = call, threading.Event()
    self.began: float | None = None
    self.abandoned = False
    self.value: Any = None
    self.error: BaseException | None = None


class Workers:
  """A few threads; calls begin in the order in which they are submitted."""

  def __init__(self, threads: int, seconds: float):
    """Starts no thread yet.

    Args:
      threads: calls at a time
      seconds: of a call, after which it is late
    """
    self._threads, self._seconds = threads, seconds
    self._queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    self._running = 0
    self._late = 0  # in a row
    self._closed = False

  @property
  def _dead(self) -> bool:
    """Whether so many calls were late in a row that no other is made."""
    return self._late >= 2 * self._threads

  def submit(self, call: Callable[[], Any]) -> Task:
    task = Task(call)
    if not self._dead:
      self._queue.put(task)
      if self._running < self._threads:
        self._start()
    return task

  def result(self, task: Task) -> Any:
    """What the call returned; blocks. Tasks are waited for in their order.

    Raises:
      Late: it takes too long, or those before it did; or what it raised.
    """
    while not task.done.wait(self._patience(task)):
      if task.began is None:
        if self._dead:
          task.abandoned = True
          raise Late(f'{self._late} answers before it were late')
      elif time.monotonic() - task.began >= self._seconds:
        self._leave(task)
        raise Late(f'no answer in {self._seconds:g} seconds')
    self._late = 0
    if task.error is not None:
      raise task.error
    return task.value

  def close(self) -> None:
    """Lets the threads end; those that hang are not waited for."""
    self._closed = True
    for _ in range(self._running):
      self._queue.put(None)

  def _patience(self, task: Task) -> float:
    if task.began is None:
      return 0.0 if self._dead else _POLL
    return max(0.0, task.began + self._seconds - time.monotonic())

  def _leave(self, task: Task) -> None:
    """Leaves the thread of a late call behind; another takes its place."""
    task.abandoned = True
    self._late += 1
    if self._dead:
      logging.warning(
        'A judge was late %d times in a row and is asked no more.', self._late
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
