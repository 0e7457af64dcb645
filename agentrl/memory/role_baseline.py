"""Moving averages of returns by role: the baseline of self-play.

Role-conditioned advantage estimation (RAE) of SPIRAL (arXiv 2506.24119). Who
moves first in a game expects another return than who moves second; a mean over
both would give one of them credit for its seat.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry
from agentrl.advantage import returns
from agentrl.memory.base import Memory
from agentrl.ops import counting
from agentrl.types import Array, Batch, Credit, Metrics

Roles = Annotated[
  int, domain.Whole(1, 64), 'how many there are: seats of the game'
]
Decay = Annotated[float, domain.Real(0, 1), 'what is kept of the average']


class RoleBaseline(struct.PyTreeNode):
  """An average for each of n roles."""

  mean: Array  # [n] f32  b, in units of the return
  count: Array  # [n] i32  returns that have entered it


@registry.register(
  'memory',
  needs=('column:agent',),
  gives=('memory:role_baseline', 'signal:role_baseline'),
)
def role_baseline(*, roles: Roles = 2, decay: Decay = 0.95) -> Memory:
  """Adds signal 'role_baseline' [B, K]: the role's b, before the return enters.

    A_i = R_i − b_p,   then   b_p ← decay · b_p + (1 − decay) R_i

  in the order of the batch, p the role of trajectory i, R_i its return, 0 the
  first b. An average reads what came before it, in this batch or in earlier
  ones, and never the return that it is compared with. Trajectories that do not
  count (no turn, or an unscored one) neither enter nor move it.
  """

  def read(state: RoleBaseline, batch: Batch, step, key):
    del step, key
    before, _ = averaged(state, batch, decay)
    b, k = batch.turns.valid.shape
    return batch, {'role_baseline': jnp.broadcast_to(before[:, None], (b, k))}

  def write(state: RoleBaseline, batch: Batch, credit: Credit, step):
    del credit, step
    return averaged(state, batch, decay)[1]

  return Memory(
    init=lambda batch, tasks: RoleBaseline(
      mean=jnp.zeros(roles), count=jnp.zeros(roles, jnp.int32)
    ),
    read=read,
    write=write,
    measure=measure,
  )


def averaged(
  state: RoleBaseline, batch: Batch, decay: float
) -> tuple[Array, RoleBaseline]:
  """Goes through the batch: averages that trajectories read [B], and the last.

  The average after trajectories 1..i of a role is a linear recurrence, and so
  one associative scan over all trajectories and roles.
  """

  def f(state: RoleBaseline, batch: Batch):
    total, _ = returns.episode(batch)
    role = batch.turns.agent[:, 0]
    counts = counting.trajectories(batch)
    roles = jnp.arange(len(state.mean))[None]
    mine = counts[:, None] & (role[:, None] == roles)
    kept = jnp.where(mine, decay, 1.0)  # [B, n]
    added = jnp.where(mine, (1 - decay) * total[:, None], 0.0)

    def then(first, second):
      return first[0] * second[0], first[1] * second[0] + second[1]

    share, new = jax.lax.associative_scan(then, (kept, added))
    after = share * state.mean[None] + new  # [B, n] behind each trajectory
    before = jnp.concatenate([state.mean[None], after[:-1]])
    own = jnp.clip(role, 0, len(state.mean) - 1)
    read = jnp.take_along_axis(before, own[:, None], axis=1)[:, 0]
    count = state.count + jnp.sum(mine, axis=0, dtype=jnp.int32)
    return read, RoleBaseline(mean=after[-1], count=count)

  return mesh.auto(f, None, None)(state, batch)


def measure(state: RoleBaseline) -> Metrics:
  """Returns the average of every role."""
  one = jnp.ones(())
  return {
    f'role_baseline/{i}': (state.mean[i], one) for i in range(len(state.mean))
  }
