"""Progress lines in the log, for slow work before a run begins."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from absl import logging

T = TypeVar('T')
EVERY = 10.0  # seconds between two lines


def logged(
  items: Iterable[T],
  what: str,
  every: float = EVERY,
  clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
  """Yields the items; a line now and then says how many there were.

  what: 'Read %d levels', say
  """
  last = clock()
  for i, item in enumerate(items, 1):
    if clock() - last >= every:
      logging.info(f'{what}, still going on.', i)
      last = clock()
    yield item
