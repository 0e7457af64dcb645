"""Memory protocol."""

from collections.abc import Callable
from typing import Any, NamedTuple

from agentrl.types import Array, Batch, Credit, Signals


class Memory(NamedTuple):
  """Arrays that outlive an iteration, and what they add to a batch.

  init: Batch -> state; only the batch's shapes are looked at
  read: (state, batch, step, key) -> Batch, Signals; the batch may have grown
  write: (state, batch, credit, step) -> state; after the update, with the
    batch that was trained on
  """

  init: Callable[[Batch], Any]
  read: Callable[[Any, Batch, Array, Array], tuple[Batch, Signals]]
  write: Callable[[Any, Batch, Credit, Array], Any]
