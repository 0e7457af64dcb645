"""Signal protocol: something learned or computed beside the policy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from agentrl import optimizer, segment
from agentrl.model import microbatch
from agentrl.model.pieces import MicroBatch
from agentrl.registry import OWN
from agentrl.types import (
  Batch,
  Credit,
  Metrics,
  Module,
  Outputs,
  PyTree,
  Rows,
  Signals,
  TrainState,
)

ORDERS = ('score_then_update', 'update_then_score', 'after_advantage')


class Context(NamedTuple):
  """Networks and optimizers of the run, by role."""

  modules: dict[str, Module]
  rules: dict[str, optimizer.OptimizerConfig]
  micro: int | MicroBatch  # rows of a micro-batch
  loaded: frozenset[str] = frozenset()  # roles that are policies of other runs

  def outputs(self, role: str, params, rows: Rows, *needs: str) -> Outputs:
    """Returns outputs of a role's network on rows, see `microbatch.forward`."""
    apply = self.modules[role].apply
    return microbatch.forward(apply, params, rows, needs, self.micro)

  def reread(
    self, role: str, params, batch: Batch, reading: str, *needs: str
  ) -> Outputs:
    """Returns outputs of a role on a reading, at the batch's own messages.

    Args:
      needs: outputs of tokens, [N, T, ...]; 0 where nothing was sampled and
        where the reading lacks the message
    """
    rows = batch.reading(reading)
    out = self.outputs(role, params, rows, *needs)
    if reading == OWN:
      return out
    own = segment.index(batch)
    here = batch.rows.sampled, own
    there = rows.sampled, own.replace(traj=rows.traj, turn=rows.turn)
    return jax.tree.map(lambda x: segment.align(x, there, here), out)


class Signal(NamedTuple):
  """order: when `update` runs.

  score_then_update: the advantage sees the signal as it was before this
  iteration's update (OPRL as released); update_then_score: after it (PRIME);
  after_advantage: the update reads credit.target (critics).
  """

  order: str
  # (state, batch, signals) -> fields of Signals, metrics
  score: Callable[[TrainState, Batch, Signals], tuple[Signals, Metrics]]
  # (state, batch, signals, credit) -> state, metrics
  update: Callable[
    [TrainState, Batch, Signals, Credit | None], tuple[TrainState, Metrics]
  ]
  # (state) -> state, before anything else of the iteration
  begin: Callable[[TrainState], TrainState] = lambda state: state
  # () -> arrays that state.signal[name] starts with; None: no such state
  init: Callable[[], PyTree] = lambda: None


def nothing(state: TrainState, *_: Any) -> tuple[TrainState, Metrics]:
  """Returns an update that learns nothing."""
  return state, {}
