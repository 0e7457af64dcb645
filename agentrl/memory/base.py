"""Memory protocol."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentrl.types import Array, Batch, Credit, Metrics, PyTree, Signals


class Memory(NamedTuple):
  """Arrays that outlive an iteration; for batches, or for what is attempted.

  init: (batch, tasks) -> state; of the batch only the shapes are looked at,
    and tasks is the size of the task set
  write: (state, batch, credit, step) -> state; after the update, with the
    batch that was trained on
  read: (state, batch, step, key) -> Batch, Signals; the batch may have grown
  measure: state -> Metrics, after it was written
  begin: (state, params) -> state, when a stage begins; params are by role
  keep: (state, params, step, key) -> state, params; after it was written, with
    the parameters that the update has left. It replaces those of frozen `roles`
  roles: the frozen roles whose parameters `keep` replaces

  Pieces of the slot 'task' that need the memory see its state on the host.
  """

  init: Callable[[Batch, int], Any]
  write: Callable[[Any, Batch, Credit, Array], Any]
  read: Callable[[Any, Batch, Array, Array], tuple[Batch, Signals]] = (
    lambda state, batch, step, key: (batch, {})
  )
  measure: Callable[[Any], Metrics] = lambda state: {}
  begin: Callable[[Any, Mapping[str, PyTree]], Any] = lambda state, params: (
    state
  )
  keep: Callable[..., tuple[Any, dict[str, PyTree]]] | None = None
  roles: tuple[str, ...] = ()
