"""Sampling more than is kept, so that every group teaches something."""

import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.curate import select
from agentrl.types import Array, Attempts, Batch, Rows


@registry.register('collect')
def dynamic_sampling(
  sample,
  score,
  attempts: Attempts,
  memory,
  carry,
  key,
  *,
  times: domain.Count = 2,
):
  """The first groups whose outcomes differ, of `times` as many (2503.14476).

  Shapes are fixed: where too few differ, others fill the batch at weight 0.
  Groups stand together in the attempts, and stay whole.

  Args:
    attempts: `times` the batch
    times: attempts for each one kept
  """
  batch: Batch = score(sample(attempts, key))
  b = batch.outcome.shape[0]
  if b % times:
    raise ValueError(
      f'dynamic_sampling keeps one of times={times} attempts, which do not'
      f' divide {b}; change c.hp.collect.dynamic_sampling.times'
    )
  differ = select.varied(batch.outcome, batch)
  order = segment.live_first(differ)[: b // times]
  return take(select.keep(batch, differ), order), carry


def take(batch: Batch, order: Array) -> Batch:
  """The trajectories `order` [b] i32 of a batch, with their rows.

  The rows of a trajectory stand together, equally many for each of them, as
  every layout of a record has them.
  """
  trajectories = (batch.turns, batch.ids, batch.outcome, batch.status)
  turns, ids, outcome, status = segment.take_trajectories(trajectories, order)
  b = batch.outcome.shape[0]
  return batch.replace(
    rows=_take_rows(batch.rows, order, b),
    turns=turns,
    ids=ids,
    outcome=outcome,
    status=status,
    readings={k: _take_rows(x, order, b) for k, x in batch.readings.items()},
  )


def _take_rows(rows: Rows, order: Array, b: int) -> Rows:
  each, rest = divmod(rows.traj.shape[0], b)
  if rest:
    raise ValueError(
      f'{rows.traj.shape[0]} rows are not equally many for {b} trajectories'
    )
  inner = jnp.arange(each, dtype=order.dtype)
  rows = segment.take_rows(
    rows, (order[:, None] * each + inner[None]).reshape(-1)
  )
  owner = jnp.arange(rows.traj.shape[0], dtype=rows.traj.dtype) // each
  return rows.replace(traj=jnp.where(rows.traj >= 0, owner[:, None], -1))
