"""Ring buffer of trajectories for replay.

Everything has a static size and stays inside jit. Replayed trajectories are
appended to the batch: ids['source'] is REPLAYED, each forms its own group, and
rows.logp is the value stored at sampling time. If fewer are replayed than there
is room for, the remaining rows are padding.

The rows of trajectory i must be the N / B consecutive ones from i N / B on,
as rollouts write them. The ring is replicated on every device.
"""

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import mesh, segment
from agentrl.ops import counting
from agentrl.types import Array, Batch, Rows, Turns

REPLAYED = 1  # ids['source']


class StoredTrajectories(struct.PyTreeNode):
  """C stored trajectories of R rows each."""

  rows: Rows  # [C, R, T]
  turns: Turns  # [C, K]
  ids: dict[str, Array]  # [C] i32
  outcome: Array  # [C] f32
  status: Array  # [C] i32


def empty(name: str, batch: Batch, capacity: int) -> StoredTrajectories:
  """Allocates room for `capacity` trajectories of the batch's shapes.

  Args:
    name: of the memory, for errors
  Raises ValueError for a batch that cannot be stored.
  """
  b, n = batch.outcome.shape[0], batch.rows.traj.shape[0]
  if batch.readings or batch.pairs is not None:
    raise ValueError(
      f'c.memory: {name!r} cannot store readings or pairs; leave it out or'
      ' choose a rollout without them'
    )
  if n % b:
    raise ValueError(
      f'c.memory: {name!r} needs the same number of rows per trajectory, got'
      f" {n} rows for {b}; set rollout.history to 'turn' or 'full'"
    )

  def like(x, *lead):
    return jnp.zeros((*lead, *x.shape[1:]), x.dtype)

  return StoredTrajectories(
    rows=jax.tree.map(lambda x: like(x, capacity, n // b), batch.rows),
    turns=jax.tree.map(lambda x: like(x, capacity), batch.turns),
    ids=jax.tree.map(lambda x: like(x, capacity), batch.ids),
    outcome=like(batch.outcome, capacity),
    status=like(batch.status, capacity),
  )


def check_room(name: str, n: int, capacity: int) -> None:
  """Raises ValueError if n exceeds the capacity."""
  if n > capacity:
    raise ValueError(
      f'hp.memory.{name}.n must be at most its capacity {capacity}, got {n}'
    )


def of_batch(batch: Batch) -> StoredTrajectories:
  """Stores the trajectories of the batch, [B] in place of [C]."""
  return StoredTrajectories(
    rows=by_trajectory(batch.rows, batch),
    turns=batch.turns,
    ids=batch.ids,
    outcome=batch.outcome,
    status=batch.status,
  )


def by_trajectory(tree, batch: Batch):
  """Reshapes arrays [N, ...] to [B, N / B, ...], replicated."""
  b = batch.outcome.shape[0]
  split = mesh.auto(lambda x: x.reshape(b, -1, *x.shape[1:]), None)
  return jax.tree.map(split, tree)


def ring(first: Array, good: Array, capacity: int) -> tuple[Array, Array]:
  """Assigns slots to good trajectories [B] from `first` on; also the next slot.

  If they exceed the capacity, the first ones are kept; all others get the
  invalid slot `capacity`.
  """

  def f(first, good):
    rank = jnp.cumsum(good) - 1
    slot = (first + rank) % capacity
    slot = jnp.where(good & (rank < capacity), slot, capacity)
    count = jnp.minimum(jnp.sum(good), capacity)
    return slot, ((first + count) % capacity).astype(jnp.int32)

  return mesh.auto(f, None)(first, good)


def put(stored, new, slot: Array):
  """Writes trees of arrays [B, ...] into [C, ...] at slots [B]."""

  def f(stored, new, slot):
    return jax.tree.map(
      lambda old, new: old.at[slot].set(new, mode='drop'), stored, new
    )

  return mesh.auto(f, None)(stored, new, slot)


def take(stored, slot: Array):
  """Reads trees of arrays [C, ...] at slots [n]."""

  def f(stored, slot):
    return jax.tree.map(lambda x: x[slot], stored)

  return mesh.auto(f, None)(stored, slot)


def append(batch: Batch, stored, slot: Array, live: Array, age: Array) -> Batch:
  """Appends the trajectories of n slots, where live [n], to the batch.

  Args:
    slot: [n] i32, all different; `slots` finds them again
    age: [n] i32, steps since they were sampled
  """
  replayed = _revived(stored, slot, live, len(batch.outcome))
  n = len(slot)
  ids = {
    'source': jnp.full(n, REPLAYED, jnp.int32),
    'group': (-2 - slot).astype(jnp.int32),  # of nobody else
    'age': jnp.where(live, age, 0).astype(jnp.int32),
  }

  def join(x, y):
    return jnp.concatenate([x, y])

  return batch.replace(
    rows=jax.tree.map(
      mesh.auto(join, segment.ROW), batch.rows, flat(replayed.rows)
    ),
    turns=jax.tree.map(join, batch.turns, replayed.turns),
    ids=jax.tree.map(join, batch.ids, {**replayed.ids, **ids}),
    outcome=join(batch.outcome, jnp.where(live, replayed.outcome, 0)),
    status=join(batch.status, replayed.status),
  )


def alone(stored, slot: Array, live: Array) -> Batch:
  """Returns a batch of the trajectories of n slots, where live [n]."""
  replayed = _revived(stored, slot, live, 0)
  return Batch(
    rows=flat(replayed.rows),
    turns=replayed.turns,
    ids=replayed.ids,
    outcome=replayed.outcome,
    status=replayed.status,
  )


def flat(rows: Rows) -> Rows:
  """Reshapes rows [n, R, T] to [n R, T], split over a mesh as others are."""
  f = mesh.auto(lambda x: x.reshape(-1, *x.shape[2:]), segment.ROW)
  return jax.tree.map(f, rows)


def _revived(
  stored, slot: Array, live: Array, first: int
) -> StoredTrajectories:
  """Reads n slots as trajectories from `first` on, padding where not live."""
  replayed = take(stored, slot)
  rows, turns = replayed.rows, replayed.turns
  n, k = turns.valid.shape
  at = jnp.arange(n, dtype=jnp.int32)
  here = (rows.traj >= 0) & live[:, None, None]
  rows = rows.replace(
    seg=jnp.where(live[:, None, None], rows.seg, -1),
    traj=jnp.where(here, (first + at)[:, None, None], -1),
    turn=jnp.where(here, rows.turn, -1),
    sampled=rows.sampled & here,
    weight=jnp.where(here, rows.weight, 0),
    logp=jnp.where(here, rows.logp, 0),
  )
  node = (first * k + jnp.arange(n * k, dtype=jnp.int32)).reshape(n, k)
  turns = turns.replace(
    valid=turns.valid & live[:, None],
    scored=turns.scored & live[:, None],
    node=node,
  )
  return replayed.replace(rows=rows, turns=turns)


def fresh(batch: Batch) -> Array:
  """Marks trajectories just sampled that count (`counting`): [B] bool."""
  return (batch.ids['source'] != REPLAYED) & counting.trajectories(batch)


def slots(batch: Batch, capacity: int) -> Array:
  """Returns the slot that each trajectory was replayed from, [B] i32.

  `capacity`, an invalid slot, for trajectories not from the memory.
  """
  back = (batch.ids['source'] == REPLAYED) & jnp.any(batch.turns.valid, axis=1)
  return jnp.where(back, -2 - batch.ids['group'], capacity)
