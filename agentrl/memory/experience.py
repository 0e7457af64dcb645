"""Experience replay: whatever was sampled comes back while it is young.

For what learns off policy, such as ArCHer's critic (2402.19446). All
trajectories that count enter a ring, the oldest makes room; n of them come
back at the end of the batch (`trajectory_ring`). Loss terms of the policy leave
them out by c.select (source 0).
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry, segment
from agentrl.advantage import chain
from agentrl.memory import trajectory_ring
from agentrl.memory.base import Memory
from agentrl.memory.trajectory_ring import StoredTrajectories
from agentrl.types import Array, Batch, Credit

LEAST = 1e-6  # priority of a trajectory whose advantages are all 0

Size = Annotated[int, domain.Whole(1, most='capacity')]


class Experience(struct.PyTreeNode):
  """C trajectories in a ring."""

  trajectories: StoredTrajectories
  born: Array  # [C] i32  step that sampled it; -1 nothing here
  priority: Array  # [C] f32  above 0 where something is
  next: Array  # [] i32  slot written next


class Drawn(NamedTuple):
  """n slots of the ring."""

  slot: Array  # [n] i32, all different
  live: Array  # [n] bool  something young enough is there
  weight: Array  # [n] f32  in (0, 1]; 0 where nothing is


@registry.register(
  'memory',
  needs=('column:source', 'column:group'),
  gives=('memory:experience_replay', 'memory:replayed'),
)
def experience_replay(
  *,
  capacity: domain.Count = 512,
  n: Size = 64,
  age: domain.Count = 8,
  alpha: domain.Rate = 0.0,
  beta: domain.Rate = 0.0,
) -> Memory:
  """Replays whole trajectories by prioritized experience replay (1511.05952):

    P_i = p_i^α / Σ_j p_j^α,     w_i = (N P_i)^−β / max_j (N P_j)^−β

  with sums over the N trajectories that are young enough and the maximum over
  those drawn. p is the mean |A| of a trajectory's sampled tokens, as the newest
  update that had it saw it. Tokens that come back have their weight times w.
  Drawn without replacement, unlike the paper's. α = 0 is uniform replay.

  Args:
    capacity: trajectories of the ring
    n: trajectories that come back in an iteration
    age: steps after which a trajectory does not come back any more
    alpha: α, how much priorities count
    beta: β, how much of the bias of drawing by priority is corrected
  """
  trajectory_ring.check_room('experience_replay', n, capacity)

  def read(state: Experience, batch: Batch, step, key):
    drawn = draw(state, step, key, n, age, alpha, beta)
    born = trajectory_ring.take(state.born, drawn.slot)
    grown = trajectory_ring.append(
      batch, state.trajectories, drawn.slot, drawn.live, step - born
    )
    one = jnp.ones_like(batch.outcome)
    weight = jnp.concatenate([one, drawn.weight.astype(one.dtype)])
    rows = grown.rows
    weight = segment.index(grown).trajectories_to_tokens(weight)
    return grown.replace(rows=rows.replace(weight=rows.weight * weight)), {}

  return Memory(
    init=lambda batch, tasks: empty(batch, capacity), write=write, read=read
  )


def empty(batch: Batch, capacity: int) -> Experience:
  """Makes an empty ring, of the shapes of the batch."""
  return Experience(
    trajectories=trajectory_ring.empty('experience_replay', batch, capacity),
    born=jnp.full(capacity, -1, jnp.int32),
    priority=jnp.zeros(capacity, batch.turns.reward.dtype),
    next=jnp.int32(0),
  )


def draw(state: Experience, step, key, n: int, age: int, alpha, beta) -> Drawn:
  """Draws n slots by P, the largest of log P + Gumbel noise, and their w."""

  def f(born, priority, step, key):
    live = (born >= 0) & (step - born <= age)
    log_p = alpha * jnp.log(jnp.where(live, priority, 1))
    log_p -= jax.nn.logsumexp(log_p, where=live | ~jnp.any(live))
    noise = jax.random.gumbel(key, born.shape, priority.dtype)
    slot = jnp.argsort(jnp.where(live, -log_p - noise, jnp.inf))[:n]
    live, log_p = live[slot], log_p[slot]
    # (N P)^−β over its maximum: N goes.
    least = jnp.min(jnp.where(live, log_p, jnp.inf), initial=jnp.inf)
    weight = jnp.exp(beta * (jnp.where(live, least, 0) - log_p))
    return Drawn(slot, live, jnp.where(live, weight, 0))

  return mesh.auto(f, None)(state.born, state.priority, step, key)


def write(state: Experience, batch: Batch, credit: Credit, step) -> Experience:
  """Writes what was just sampled; what came back has its priority of now."""
  capacity = state.born.shape[0]
  fresh = trajectory_ring.fresh(batch)
  again = trajectory_ring.slots(batch, capacity)
  slot, after = trajectory_ring.ring(state.next, fresh, capacity)
  now = priorities(batch, credit).astype(state.priority.dtype)
  priority = trajectory_ring.put(state.priority, now, again)
  born = jnp.full(batch.outcome.shape[0], step, jnp.int32)
  stored, born, priority = trajectory_ring.put(
    (state.trajectories, state.born, priority),
    (trajectory_ring.of_batch(batch), born, now),
    slot,
  )
  return Experience(stored, born, priority, after)


def priorities(batch: Batch, credit: Credit) -> Array:
  """Averages |A| over sampled tokens of each trajectory, above 0: [B]."""
  rows, index = batch.rows, segment.index(batch)
  a = jnp.abs(chain.token_advantage(credit, rows))
  total = index.to_trajectories(a)
  count = index.to_trajectories(rows.sampled.astype(a.dtype))
  return jnp.maximum(total / jnp.maximum(count, 1), LEAST)
