"""Calls in threads that nothing waits for.

A thread cannot be stopped, and the program waits at its end for those of
concurrent.futures. These are daemons: a call that hangs costs its own thread,
and neither another call nor the end of the program.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar('T')


def start(call: Callable[[], T]) -> 'Future[T]':
  """Begins a call in a thread of its own; the future holds what it does.

  Raises:
    RuntimeError: the system gives no thread.
  """
  future: Future[T] = Future()
  future.set_running_or_notify_cancel()  # a call that has begun goes on

  def live() -> None:
    try:
      result = call()
    except BaseException as error:  # whatever it raises is the caller's
      future.set_exception(error)
    else:
      future.set_result(result)

  threading.Thread(target=live, daemon=True).start()
  return future
