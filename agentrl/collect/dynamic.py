"""Oversampling, so that every group in the batch has a learning signal."""

import jax
import jax.numpy as jnp

from agentrl import domain, mesh, registry, segment
from agentrl.curate import select
from agentrl.ops import counting
from agentrl.types import Array, Batch, CollectInputs, Rows


@registry.register('collect')
def dynamic_sampling(x: CollectInputs, *, times: domain.Count = 2) -> Batch:
  """Keeps the first groups with mixed outcomes, of `times` (2503.14476).

  Shapes are fixed: if too few groups qualify, others fill the batch at weight
  0. Groups stay contiguous and whole: a member that does not count keeps its
  place at weight 0.

  Args:
    attempts: `times` the batch
    times: attempts per attempt kept
  """
  batch = x.score(x.sample(x.attempts, x.key))
  b = batch.outcome.shape[0]
  if b % times:
    raise ValueError(
      f'c.hp.collect.dynamic_sampling.times must divide {b} attempts, got'
      f' {times}'
    )
  differ = select.varied(batch.outcome, batch)
  whole = segment.segment_max(
    differ.astype(jnp.float32), select.group_ids(batch)
  )
  order = segment.live_first(whole > 0)[: b // times]
  return take(select.keep(batch, differ), order)


@registry.register(
  'collect', needs=registry.get('curate', 'correct_and_clean').needs
)
def resample_on_correct(
  x: CollectInputs, *, group_times: domain.Count = 2
) -> Batch:
  """Keeps one in `group_times` members of each group by `correct_and_clean`.

  The batch and its groups keep the configured sizes; where a group has too few
  members to keep, or is dropped, others fill its places at weight 0
  (2508.20722).

  Args:
    attempts: `group_times` the batch, in groups as many times as large
    group_times: members of a group that are sampled for each one kept
  """
  batch = x.score(x.sample(x.attempts, x.key))
  name, choose = 'resample_on_correct', select.correct_and_clean
  return _resampled(name, batch, choose, group_times)


@registry.register(
  'collect', needs=registry.get('curate', 'correct_and_clean_calls').needs
)
def resample_on_correct_calls(
  x: CollectInputs, *, group_times: domain.Count = 2
) -> Batch:
  """Resamples by `correct_and_clean_calls`, for rollouts with tools.

  Args:
    group_times: members of a group that are sampled for each one kept
  """
  batch = x.score(x.sample(x.attempts, x.key))
  name, choose = 'resample_on_correct_calls', select.correct_and_clean_calls
  return _resampled(name, batch, choose, group_times)


def _resampled(name: str, batch: Batch, choose, group_times: int) -> Batch:
  """Keeps the members that `choose` picks, one in `group_times` per group."""
  b = batch.outcome.shape[0]
  if b % group_times:
    raise ValueError(
      f'c.hp.collect.{name}.group_times must divide {b} attempts, got'
      f' {group_times}'
    )
  curated = choose(batch, share=1 / group_times)
  good = counting.trajectories(curated)
  group, one = select.group_ids(batch), jnp.ones(b, jnp.int32)
  place = segment.rank(jnp.where(good, 0, 1), group, one > 0)
  first = place * group_times < segment.segment_sum(one, group)
  return take(curated, segment.live_first(first)[: b // group_times])


@registry.register('collect', needs=('column:group',))
def resample_contrastive(
  x: CollectInputs, *, group_times: domain.Count = 2
) -> Batch:
  """Keeps one in `group_times` members of each group by `contrastive`.

  DCPO of ChatShopBuddy (2603.06065); as in `resample_on_correct`, advantages
  use the statistics of the members kept.

  Args:
    attempts: `group_times` the batch, in groups as many times as large
    group_times: members of a group that are sampled for each one kept
  """
  batch = x.score(x.sample(x.attempts, x.key))
  name, choose = 'resample_contrastive', select.contrastive
  return _resampled(name, batch, choose, group_times)


def one_after_another(one: Batch, two: Batch) -> Batch:
  """Concatenates two batches and adds their sampling counts.

  Groups keep their ids: equal ids in both batches form one group.
  """
  sampled = jax.tree.map(jnp.add, one.sampled, two.sampled)
  node = two.turns.node + one.turns.node.size
  two = two.replace(turns=two.turns.replace(node=node), sampled={})
  b = one.outcome.shape[0]

  def later(rows):
    return rows.replace(traj=jnp.where(rows.traj >= 0, rows.traj + b, -1))

  two = two.replace(
    rows=later(two.rows),
    readings={name: later(x) for name, x in two.readings.items()},
  )
  both = jax.tree.map(
    lambda x, y: jnp.concatenate([x, y]), one.replace(sampled={}), two
  )
  return both.replace(sampled=sampled)


def take(batch: Batch, order: Array) -> Batch:
  """Takes the trajectories `order` [b] i32 of a batch, with their rows.

  Every layout keeps the rows of a trajectory contiguous, the same number for
  each trajectory.
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
      f'rows must be a multiple of {b} trajectories, got {rows.traj.shape[0]}'
    )
  inner = jnp.arange(each, dtype=order.dtype)
  rows = segment.take_rows(
    rows, (order[:, None] * each + inner[None]).reshape(-1)
  )
  owner = jnp.arange(rows.traj.shape[0], dtype=rows.traj.dtype) // each
  owner = mesh.with_logical_sharding(owner[:, None], 'batch', None)
  return rows.replace(traj=jnp.where(rows.traj >= 0, owner, -1))
