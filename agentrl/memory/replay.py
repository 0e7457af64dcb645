"""A pool of trajectories that went well, trained on again (SPEAR, 2509.22601).

Everything has a static size and stays inside jit. The pool is a ring: what
beat its group enters, the oldest makes room. Each iteration n of those that
are young enough come back as trajectories of their own, at the end of the
batch: ids['source'] is 1, each is alone in its group, and rows.logp is what
was stored when they were sampled. Where there are fewer than n, the rest of
the rows is padding.

The rows of trajectory i must be the N / B consecutive ones from i N / B on,
as rollouts write them. The pool is kept whole on every device.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import counting, domain, mesh, registry, segment
from agentrl.advantage import chain, returns
from agentrl.memory.base import Memory
from agentrl.types import Array, Batch, Credit, Rows, Turns

REPLAYED = 1  # ids['source']


@struct.dataclass
class ReplayPool:
  """Trajectories in the pool; R rows each."""

  rows: Rows  # [C, R, T]
  turns: Turns  # [C, K]
  ids: dict[str, Array]  # [C] i32
  outcome: Array  # [C] f32
  status: Array  # [C] i32


@struct.dataclass
class Pool:
  """C trajectories, and F means of groups; both are rings."""

  trajectories: ReplayPool
  born: Array  # [C] i32  step that sampled it; -1 nothing here
  next: Array  # [] i32  slot written next
  means: Array  # [F] f32  mean returns of past groups
  groups: Array  # [] i32  how many means were ever written


@registry.register(
  'memory',
  needs=('column:source', 'column:group'),
  gives=('memory:replay', 'signal:replay.advantage'),
)
def replay(
  *,
  capacity: domain.Count = 512,
  n: Annotated[int, domain.Whole(1, most='capacity')] = 16,
  age: domain.Count = 10,
  history: domain.Count = 10240,
) -> Memory:
  """Signal 'replay.advantage' [B, K]: r − median of past groups' means.

  r is the return of the replayed trajectory; 0 on what was just sampled. A
  trajectory is judged again by what is usual now, not by its own group.

  Args:
    capacity: trajectories of the pool
    n: trajectories that come back in an iteration
    age: steps after which a trajectory does not come back any more
    history: means of groups that the median is taken over
  """
  if n > capacity:
    raise ValueError(
      f'hp.memory.replay: n={n} of {capacity} cannot come back; lower n or'
      ' raise capacity'
    )

  def read(pool: Pool, batch: Batch, step, key):
    replayed, born, live = _choose(pool, step, key, n, age)
    grown = _append(batch, replayed, live, step - born)
    b = batch.outcome.shape[0]
    own = returns.reward(grown)
    better = jnp.sum(own, axis=1, keepdims=True) - median(pool)
    again = (jnp.arange(b + n) >= b)[:, None] & grown.turns.valid
    return grown, {'replay.advantage': jnp.where(again, better, 0)}

  return Memory(
    init=lambda batch, tasks: empty(batch, capacity, history),
    write=write,
    read=read,
  )


def empty(batch: Batch, capacity: int, history: int) -> Pool:
  """A pool of nothing, of the shapes of the batch.

  Raises ValueError for a batch that cannot be replayed.
  """
  b, n = batch.outcome.shape[0], batch.rows.traj.shape[0]
  if batch.readings or batch.pairs is not None:
    raise ValueError(
      "c.memory: 'replay' stores neither readings nor pairs; leave it out or"
      ' choose a rollout without them'
    )
  if n % b:
    raise ValueError(
      f"c.memory: 'replay' needs equally many rows for each trajectory, not"
      f" {n} rows for {b}; set rollout.history to 'turn' or 'full'"
    )

  def like(x, *lead):
    return jnp.zeros((*lead, *x.shape[1:]), x.dtype)

  stored = ReplayPool(
    rows=jax.tree.map(lambda x: like(x, capacity, n // b), batch.rows),
    turns=jax.tree.map(lambda x: like(x, capacity), batch.turns),
    ids=jax.tree.map(lambda x: like(x, capacity), batch.ids),
    outcome=like(batch.outcome, capacity),
    status=like(batch.status, capacity),
  )
  return Pool(
    trajectories=stored,
    born=jnp.full(capacity, -1, jnp.int32),
    next=jnp.int32(0),
    means=jnp.zeros(history, batch.turns.reward.dtype),
    groups=jnp.int32(0),
  )


def median(pool: Pool) -> Array:
  """Median of the means that were written; 0 before there are any."""

  def f(means, groups):
    count = jnp.minimum(groups, means.size)
    valid = jnp.arange(means.size) < count
    ordered = jnp.sort(jnp.where(valid, means, jnp.inf))
    low, high = jnp.maximum(count - 1, 0) // 2, count // 2
    return jnp.where(count > 0, (ordered[low] + ordered[high]) / 2, 0)

  return mesh.auto(f, None)(pool.means, pool.groups)


def _choose(pool: Pool, step, key, n: int, age: int):
  """n different trajectories of the pool, and which of them are real [n]."""

  def f(stored, born, step, key):
    live = (born >= 0) & (step - born <= age)
    noise = jax.random.uniform(key, born.shape)
    index = jnp.argsort(jnp.where(live, noise, 2.0))[:n]
    stored, born = jax.tree.map(lambda x: x[index], (stored, born))
    return stored, born, live[index]

  return mesh.auto(f, None)(pool.trajectories, pool.born, step, key)


def _append(batch: Batch, replayed: ReplayPool, live, age) -> Batch:
  """The batch, followed by n kept trajectories where live [n]."""
  rows, turns = replayed.rows, replayed.turns
  b, (n, k) = batch.outcome.shape[0], turns.valid.shape
  at = jnp.arange(n, dtype=jnp.int32)
  here = (rows.traj >= 0) & live[:, None, None]
  rows = rows.replace(
    seg=jnp.where(live[:, None, None], rows.seg, -1),
    traj=jnp.where(here, (b + at)[:, None, None], -1),
    turn=jnp.where(here, rows.turn, -1),
    sampled=rows.sampled & here,
    weight=jnp.where(here, rows.weight, 0),
    logp=jnp.where(here, rows.logp, 0),
  )
  node = (b * k + jnp.arange(n * k, dtype=jnp.int32)).reshape(n, k)
  turns = turns.replace(
    valid=turns.valid & live[:, None],
    scored=turns.scored & live[:, None],
    node=node,
  )
  ids = {
    'source': jnp.full(n, REPLAYED, jnp.int32),
    'group': -2 - at,  # of nobody else
    'age': jnp.where(live, age, 0).astype(jnp.int32),
  }

  def join(x, y):
    return jnp.concatenate([x, y])

  def join_rows(x, y):
    flat = y.reshape(-1, *y.shape[2:])
    return mesh.auto(join, segment.ROW)(x, flat)

  return batch.replace(
    rows=jax.tree.map(join_rows, batch.rows, rows),
    turns=jax.tree.map(join, batch.turns, turns),
    ids=jax.tree.map(join, batch.ids, {**replayed.ids, **ids}),
    outcome=join(batch.outcome, jnp.where(live, replayed.outcome, 0)),
    status=join(batch.status, replayed.status),
  )


def write(pool: Pool, batch: Batch, credit: Credit, step) -> Pool:
  """The pool with what was just sampled and has A > 0 over its tokens.

  What does not count (`counting`) neither enters nor is in a group's mean.
  """
  rows, b = batch.rows, batch.outcome.shape[0]
  a = chain.token_advantage(credit, rows)
  fresh = (batch.ids['source'] != REPLAYED) & counting.trajectories(batch)
  traj, turn, _ = segment.unit('trajectory', rows.traj, rows.turn, 1)
  good = fresh & (segment.to_turns(a, traj, turn, b, 1)[:, 0] > 0)
  capacity, each = pool.trajectories.rows.traj.shape[:2]
  now = ReplayPool(rows, batch.turns, batch.ids, batch.outcome, batch.status)

  def f(pool, new, good, step):
    rank = jnp.cumsum(good) - 1
    slot = (pool.next + rank) % capacity
    # Of more than there is room for the first ones stay.
    slot = jnp.where(good & (rank < capacity), slot, capacity)
    rows = jax.tree.map(lambda x: x.reshape(b, each, *x.shape[1:]), new.rows)
    stored, born = jax.tree.map(
      lambda old, new: old.at[slot].set(new, mode='drop'),
      (pool.trajectories, pool.born),
      (new.replace(rows=rows), jnp.full(b, step, jnp.int32)),
    )
    count = jnp.minimum(jnp.sum(good), capacity)
    after = (pool.next + count) % capacity
    return pool.replace(
      trajectories=stored, born=born, next=after.astype(jnp.int32)
    )

  pool = mesh.auto(f, None)(pool, now, good, step)
  return _remember_groups(pool, batch, fresh)


def _remember_groups(pool: Pool, batch: Batch, fresh) -> Pool:
  """Mean returns over the group members of `fresh` [B], one for each group."""
  group = segment.compact_ids(batch.ids['group'])
  total = jnp.sum(returns.reward(batch), axis=1)
  ones = jnp.ones_like(total)
  count = segment.segment_sum(ones, group, fresh)
  mean = segment.segment_sum(total, group, fresh) / jnp.maximum(count, 1)
  index = jnp.arange(total.size, dtype=total.dtype)
  first = fresh & (index == -segment.segment_max(-index, group, fresh))

  def f(pool, mean, first):
    history = pool.means.size
    rank = jnp.cumsum(first) - 1
    slot = (pool.groups + rank) % history
    slot = jnp.where(first & (rank < history), slot, history)
    means = pool.means.at[slot].set(mean, mode='drop')
    groups = (pool.groups + jnp.sum(first)).astype(jnp.int32)
    return pool.replace(means=means, groups=groups)

  return mesh.auto(f, None)(pool, mean, first)
