"""A pool of trajectories that went well, trained on again (SPEAR, 2509.22601).

What beat its group enters a ring, the oldest makes room. n of those that are
young enough come back at the end of the batch (`trajectory_ring`).
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, ops, registry, segment
from agentrl.advantage import chain, returns
from agentrl.memory import trajectory_ring
from agentrl.memory.base import Memory
from agentrl.memory.trajectory_ring import StoredTrajectories
from agentrl.types import Array, Batch, Credit

Size = Annotated[int, domain.Whole(1, most='capacity')]
_register = registry.register(
  'memory',
  needs=('column:source', 'column:group'),
  gives=('memory:replay', 'memory:replayed', 'signal:replay.advantage'),
)


class Pool(struct.PyTreeNode):
  """C trajectories, and F means of groups; both are rings."""

  trajectories: StoredTrajectories
  born: Array  # [C] i32  step that sampled it; -1 nothing here
  next: Array  # [] i32  slot written next
  means: Array  # [F] f32  mean returns of past groups
  groups: Array  # [] i32  how many means were ever written


@_register
def replay(
  *,
  capacity: domain.Count = 512,
  n: Size = 16,
  age: domain.Count = 10,
  history: domain.Count = 10240,
) -> Memory:
  """Adds signal 'replay.advantage' [B, K]: r − median of past groups' means.

  r is the return of the replayed trajectory; 0 on what was just sampled. A
  trajectory is judged again by what is usual now, not by its own group.

  Args:
    capacity: trajectories of the pool
    n: trajectories that come back in an iteration
    age: steps after which a trajectory does not come back any more
    history: means of groups that the median is taken over
  """
  trajectory_ring.check_room('replay', n, capacity)

  def read(pool: Pool, batch: Batch, step, key):
    slot, live = _choose(pool.born, step, key, n, age)
    return _judged(pool, batch, slot, live, step)

  return Memory(
    init=lambda batch, tasks: empty('replay', batch, capacity, history),
    write=write,
    read=read,
  )


@_register
def replay_when_full(
  *,
  capacity: domain.Count = 512,
  n: Size = 64,
  age: domain.Count = 10,
  history: domain.Count = 10240,
) -> Memory:
  """Runs `replay` as released: nothing comes back until the pool is full.

  Then n of it do, at random, and the pool is emptied of all that it held. It
  is full when `capacity` of its trajectories are young enough to come back.

  Args:
    capacity, n, age, history: as of `replay`
  """
  trajectory_ring.check_room('replay_when_full', n, capacity)

  def read(pool: Pool, batch: Batch, step, key):
    slot, live = _choose(pool.born, step, key, n, age)
    full = jnp.sum(_young(pool.born, step, age)) == capacity
    return _judged(pool, batch, slot, live & full, step)

  def write_after(pool: Pool, batch: Batch, credit: Credit, step) -> Pool:
    used = jnp.any(trajectory_ring.slots(batch, capacity) < capacity)
    pool = pool.replace(born=jnp.where(used, -1, pool.born))
    return write(pool, batch, credit, step)

  return Memory(
    init=lambda batch, tasks: empty(
      'replay_when_full', batch, capacity, history
    ),
    write=write_after,
    read=read,
  )


def empty(name: str, batch: Batch, capacity: int, history: int) -> Pool:
  """Makes an empty pool, of the shapes of the batch.

  Raises ValueError for a batch that cannot be replayed.
  """
  return Pool(
    trajectories=trajectory_ring.empty(name, batch, capacity),
    born=jnp.full(capacity, -1, jnp.int32),
    next=jnp.int32(0),
    means=jnp.zeros(history, batch.turns.reward.dtype),
    groups=jnp.int32(0),
  )


def median(pool: Pool) -> Array:
  """Returns the median of the means that were written; 0 before any are."""

  def f(means, groups):
    count = jnp.minimum(groups, means.size)
    valid = jnp.arange(means.size) < count
    ordered = jnp.sort(jnp.where(valid, means, jnp.inf))
    low, high = jnp.maximum(count - 1, 0) // 2, count // 2
    return jnp.where(count > 0, (ordered[low] + ordered[high]) / 2, 0)

  return mesh.auto(f, None)(pool.means, pool.groups)


def _young(born, step, age: int) -> Array:
  return (born >= 0) & (step - born <= age)


def _choose(born: Array, step, key, n: int, age: int):
  """Chooses slots of n different trajectories, and which are real: [n]."""

  def f(born, step, key):
    live = _young(born, step, age)
    noise = jax.random.uniform(key, born.shape)
    slot = jnp.argsort(jnp.where(live, noise, 2.0))[:n]
    return slot, live[slot]

  return mesh.auto(f, None)(born, step, key)


def _judged(pool: Pool, batch: Batch, slot, live, step):
  """Returns the grown batch, and its signal."""
  b, n = batch.outcome.shape[0], slot.shape[0]
  age = step - trajectory_ring.take(pool.born, slot)
  grown = trajectory_ring.append(batch, pool.trajectories, slot, live, age)
  total, size = returns.episode(grown)
  better = total - median(pool)
  # What equals the median up to rounding is no better.
  better = jnp.where(jnp.abs(better) > ops.rounding(size), better, 0)[:, None]
  again = (jnp.arange(b + n) >= b)[:, None] & grown.turns.valid
  return grown, {'replay.advantage': jnp.where(again, better, 0)}


def write(pool: Pool, batch: Batch, credit: Credit, step) -> Pool:
  """Returns the pool with what was just sampled and has A > 0 over its tokens.

  What does not count (`counting`) neither enters nor is in a group's mean.
  """
  a = chain.token_advantage(credit, batch.rows)
  fresh = trajectory_ring.fresh(batch)
  good = fresh & (segment.index(batch).to_trajectories(a) > 0)
  slot, after = trajectory_ring.ring(pool.next, good, pool.born.shape[0])
  born = jnp.full(batch.outcome.shape[0], step, jnp.int32)
  stored, born = trajectory_ring.put(
    (pool.trajectories, pool.born),
    (trajectory_ring.of_batch(batch), born),
    slot,
  )
  pool = pool.replace(trajectories=stored, born=born, next=after)
  return _remember_groups(pool, batch, fresh)


def _remember_groups(pool: Pool, batch: Batch, fresh) -> Pool:
  """Stores the mean return over group members of `fresh` [B], one a group."""
  group = segment.compact_ids(batch.ids['group'])
  total, size = returns.episode(batch)
  mean = ops.group_moments(total, group, mask=fresh, size=size).mean
  index = jnp.arange(total.size, dtype=total.dtype)
  first = fresh & (index == -segment.segment_max(-index, group, fresh))
  slot, _ = trajectory_ring.ring(pool.groups, first, pool.means.shape[0])
  return pool.replace(
    means=trajectory_ring.put(pool.means, mean, slot),
    groups=(pool.groups + jnp.sum(first)).astype(jnp.int32),
  )
