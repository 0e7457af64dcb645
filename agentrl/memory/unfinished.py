"""Groups under way: their trajectories so far, until all members have ended.

What partial rollouts (collect/partial.py) go on with. It is part of the
training state, so that a run that was killed goes on with the same attempts.

A batch that is collected beside the updates begins before those of the S
batches before it are done, so there are S + 1 queues, one batch in turn for
each: what batch n leaves is there when batch n + S + 1 begins.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl import domain, registry, segment
from agentrl.memory import trajectory_ring
from agentrl.memory.base import Memory
from agentrl.memory.trajectory_ring import StoredTrajectories
from agentrl.types import Array, Batch, Credit, Status


class Unfinished(struct.PyTreeNode):
  """Q queues, each with room for the trajectories of a batch."""

  trajectories: StoredTrajectories  # [Q, B, ...]  those that wait stand first
  waiting: Array  # [Q] i32  how many wait
  begun: Array  # [Q] i32  trajectories that were ever begun
  updates: Array  # [] i32  since it was empty; their queue is next in turn


class Waiting(NamedTuple):
  """Trajectories that a batch goes on with, as it begins: host arrays."""

  batch: Batch  # of B; the first `size` are real, the others hold nothing
  key: Any  # [B, 2] u32
  size: int
  begun: int  # trajectories of this queue
  queues: int  # Q


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if there is a queue for each batch that may be under way."""
  [(_, values)] = registry.settings_of(spec, 'memory', unfinished.__name__)
  want = config.staleness.bound + 1
  if values['queues'] == want:
    return ''
  return (
    f'hp.memory.unfinished.queues must be {want}, staleness.bound + 1, one'
    f' for each batch that may be under way, got {values["queues"]}'
  )


@registry.register(
  'memory',
  needs=('column:unfinished',),
  gives=('memory:unfinished',),
  check=fits,
)
def unfinished(*, queues: domain.Count = 1) -> Memory:
  """Keeps the groups of a batch that have unfinished members, in order.

  With tokens, behaviour log-probs, versions and the keys they are sampled by.

  Args:
    queues: batches that may be under way at a time, staleness.bound + 1
  """
  return Memory(init=lambda batch, tasks: empty(batch, queues), write=write)


def empty(batch: Batch, queues: int) -> Unfinished:
  """Begins with no trajectory, in places of the shapes of the batch.

  Raises ValueError for a batch that cannot be stored.
  """
  size = batch.outcome.shape[0]
  one = trajectory_ring.empty(unfinished.__name__, batch, size)
  return Unfinished(
    trajectories=jax.tree.map(
      lambda x: jnp.zeros((queues, *x.shape), x.dtype), one
    ),
    waiting=jnp.zeros(queues, jnp.int32),
    begun=jnp.zeros(queues, jnp.int32),
    updates=jnp.int32(0),
  )


def write(state: Unfinished, batch: Batch, credit: Credit, step) -> Unfinished:
  """Replaces the queue of this batch by what the batch leaves unfinished."""
  del credit, step
  queues, size = state.trajectories.outcome.shape
  queue = state.updates % queues
  # What a replay memory has appended stands behind.
  own = jax.tree.map(lambda x: x[:size], trajectory_ring.of_batch(batch))
  waits = own.ids['waits'] > 0
  first = trajectory_ring.take(own, segment.live_first(waits))
  count = jnp.sum(waits, dtype=jnp.int32)
  begun = size - state.waiting[queue]
  return Unfinished(
    trajectories=trajectory_ring.put(
      state.trajectories,
      jax.tree.map(lambda x: x[None], first),
      queue[None],
    ),
    waiting=state.waiting.at[queue].set(count),
    begun=state.begun.at[queue].add(begun),
    updates=state.updates + 1,
  )


def waiting(state: Unfinished, step: int) -> Waiting:
  """Returns what the batch of a step goes on with: [B] trajectories.

  What waited had no weight and was not scored, as nothing of its group was;
  both are as they were before.

  Args:
    state: host arrays, as of the update that has written this queue
    step: of the stage
  """
  queues, b = np.shape(state.trajectories.outcome)
  queue = step % queues
  x: StoredTrajectories = jax.tree.map(
    lambda x: np.asarray(x)[queue], state.trajectories
  )
  size, place = int(state.waiting[queue]), np.arange(b, dtype=np.int32)
  here, whole = place < size, x.status != Status.ENV_ERROR
  rows, valid = x.rows, x.turns.valid & here[:, None]
  used = (rows.traj >= 0) & here[:, None, None]
  rows = rows.replace(
    seg=np.where(used, rows.seg, -1),
    traj=np.where(used, place[:, None, None], -1),
    sampled=rows.sampled & used,
    weight=(rows.sampled & used & whole[:, None, None]).astype(np.float32),
  )
  turns = x.turns.replace(valid=valid, scored=valid & whole[:, None])
  words = sorted(name for name in x.ids if name.startswith('key_'))
  key = np.stack([x.ids[name] for name in words], axis=1).view(np.uint32)
  batch = Batch(
    rows=jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows),
    turns=turns,
    ids=x.ids,
    outcome=x.outcome,
    status=x.status,
  )
  return Waiting(batch, key, size, int(state.begun[queue]), queues)
