"""Trajectories that were put off, trained on later as batches of their own.

RoRecomp (Rollout Response Recomposition). A link takes the weight of part of
the trajectories away (advantage/recomposition.py); they wait here with the
advantage that they have in their group, first in, first out. Once n wait, the n
oldest come back together with some chance.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry, segment
from agentrl.advantage import chain
from agentrl.memory import trajectory_ring
from agentrl.memory.base import Memory
from agentrl.memory.trajectory_ring import StoredTrajectories
from agentrl.types import Array, Batch, Credit, Metrics

Size = Annotated[int, domain.Whole(1, most='capacity')]


class Waiting(struct.PyTreeNode):
  """A queue of at most C trajectories in a ring."""

  trajectories: StoredTrajectories
  advantage: Array  # [C, R, T] f32  of each token, when it was put off
  born: Array  # [C] i32  step that sampled it
  first: Array  # [] i32  slot of the oldest
  count: Array  # [] i32  how many wait
  lost: Array  # [] i32  how many ever made room for others


@registry.register(
  'memory',
  needs=('column:source', 'column:group'),
  gives=(
    'memory:compensation',
    'memory:replayed',
    'signal:compensation.advantage',
  ),
)
def compensation(
  *,
  capacity: domain.Count = 256,
  n: Size = 128,
  chance: domain.Chance = 1.0,
) -> Memory:
  """Adds signal 'compensation.advantage' [N, T], as when they were put off.

  0 on what was just sampled. Where there is no room the oldest is lost.

  Args:
    capacity: trajectories that wait at most
    n: trajectories that come back together
    chance: that they do in an iteration, once so many wait; RoRecomp's falls
      over the run, say by c.schedule
  """
  trajectory_ring.check_room('compensation', n, capacity)

  def read(state: Waiting, batch: Batch, step, key):
    come = (state.count >= n) & (jax.random.uniform(key) < chance)
    slot = (state.first + jnp.arange(n, dtype=jnp.int32)) % capacity
    age = step - trajectory_ring.take(state.born, slot)
    grown = trajectory_ring.append(
      batch, state.trajectories, slot, jnp.broadcast_to(come, (n,)), age
    )
    later = trajectory_ring.take(state.advantage, slot)

    def join(now, later, come):
      later = jnp.where(come, later, 0).reshape(-1, now.shape[1])
      return jnp.concatenate([jnp.zeros_like(now), later])

    advantage = mesh.auto(join, segment.ROW)(batch.rows.logp, later, come)
    return grown, {'compensation.advantage': advantage}

  return Memory(
    init=lambda batch, tasks: empty(batch, capacity),
    write=lambda state, batch, credit, step: write(
      state, batch, credit, step, n
    ),
    read=read,
    measure=measure,
  )


def empty(batch: Batch, capacity: int) -> Waiting:
  """Makes an empty queue, of the shapes of the batch."""
  stored = trajectory_ring.empty('compensation', batch, capacity)
  return Waiting(
    trajectories=stored,
    advantage=jnp.zeros_like(stored.rows.logp),
    born=jnp.zeros(capacity, jnp.int32),
    first=jnp.int32(0),
    count=jnp.int32(0),
    lost=jnp.int32(0),
  )


def put_off(batch: Batch, credit: Credit) -> Array:
  """Marks trajectories that count, no token of which is trained on: [B] bool.

  But whose rows have weight: what they lost, a link took.
  """
  rows, index = batch.rows, segment.index(batch)

  def weighs(weight):
    whole = (rows.sampled & (weight > 0)).astype(jnp.float32)
    return index.to_trajectories(whole) > 0

  lost = weighs(rows.weight) & ~weighs(credit.weight)
  return trajectory_ring.fresh(batch) & lost


def write(
  state: Waiting, batch: Batch, credit: Credit, step, n: int
) -> Waiting:
  """Queues what was put off; what came back has left the queue."""
  capacity = state.born.shape[0]
  came = jnp.any(trajectory_ring.slots(batch, capacity) < capacity)
  gone = jnp.where(came, n, 0)
  left = state.count - gone
  good = put_off(batch, credit)
  end = (state.first + state.count) % capacity
  slot, after = trajectory_ring.ring(end, good, capacity)
  a = chain.token_advantage(credit, batch.rows)
  born = jnp.full(batch.outcome.shape[0], step, jnp.int32)
  stored, advantage, born = trajectory_ring.put(
    (state.trajectories, state.advantage, state.born),
    (
      trajectory_ring.of_batch(batch),
      trajectory_ring.by_trajectory(a, batch),
      born,
    ),
    slot,
  )
  whole = left + jnp.minimum(jnp.sum(good), capacity)
  count = jnp.minimum(whole, capacity)
  return Waiting(
    trajectories=stored,
    advantage=advantage,
    born=born,
    first=((after - count) % capacity).astype(jnp.int32),
    count=count.astype(jnp.int32),
    lost=(state.lost + whole - count).astype(jnp.int32),
  )


def measure(state: Waiting) -> Metrics:
  """Counts what waits, and what was ever lost."""
  one = jnp.ones(())
  return {
    'compensation/waiting': (state.count.astype(jnp.float32), one),
    'compensation/lost': (state.lost.astype(jnp.float32), one),
  }
