"""Value of tasks by p (1 − p): how much their groups have to teach.

VSPO (arXiv 2512.07478). Its formulas were not published where we looked; these
are our reading of its abstract.
"""

import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, returns
from agentrl.domain import Rate
from agentrl.ops import counting
from agentrl.types import Array, Batch, Linked, LinkInputs


def task_value(batch: Batch) -> Array:
  """Returns V = p (1 − p) of each trajectory's group: [B].

  p is the mean return of the members that count, each clipped to [0, 1]. 0
  where they agree, and of trajectories that do not count.
  """
  live = counting.trajectories(batch)
  group = segment.compact_ids(batch.ids['group'])
  total, size = returns.episode(batch)
  m = ops.group_moments(jnp.clip(total, 0, 1), group, mask=live, size=size)
  return jnp.where(live & (m.var > 0), m.mean * (1 - m.mean), 0)


@registry.register('link', needs=('column:group',))
def scale_by_task_value(x: LinkInputs, *, width: Rate = 0.2) -> Linked:
  """x clip(V / mean V, 1 − width, 1 + width),  V = p (1 − p) of the group.

  The mean is over trajectories of groups with V > 0; where there are none
  nothing changes. The bound keeps tasks that were sampled again for their value
  from having the last word.

  Args:
    width: how far the factor may be from 1
  """
  value = task_value(x.batch)
  some = value > 0
  mean = jnp.sum(value) / jnp.maximum(jnp.sum(some), 1)
  ratio = value / jnp.where(mean > 0, mean, 1)
  factor = jnp.where(some, jnp.clip(ratio, 1 - width, 1 + width), 1)
  n = jnp.sum(some).astype(factor.dtype)
  metrics = {'factor': (jnp.sum(jnp.where(some, factor, 0)), n)}
  return chain.times(x.credit, factor[:, None]), metrics
