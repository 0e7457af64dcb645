"""Links that put part of a group off: its long solutions and short failures.

RoRecomp recomposes batches: short solutions and long failures are trained on
now, the rest later (memory `compensation`). Advantages are those of the whole
group, which is why these links stand in c.post, after all statistics.
"""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Named, Share
from agentrl.ops import counting
from agentrl.types import Array, Batch, Linked, LinkInputs


@registry.register('link', needs=('column:group',), takes='any')
def priority_turns(x: LinkInputs, *, share: Share = 0.8) -> Linked:
  """Zeroes all weights but the priority batch's, by number of turns.

  Of a group's n_c solutions the ⌈share · n_c⌉ shortest have priority, and the
  ⌈share · n_w⌉ longest of its n_w failures; of equal ones the first.

  Args:
    share: of solutions and of failures that have priority
  """
  length = jnp.sum(counting.counted(x.batch, 'trajectory'), axis=1)
  return _weighing(x, length, share)


@registry.register('link', needs=('column:group', 'term:{term}'), takes='any')
def priority_term(
  x: LinkInputs, *, share: Share = 0.8, term: Named = 'tokens'
) -> Linked:
  """Applies `priority_turns` by the sum of a term, such as 'tokens' or 'calls'.

  Args:
    share: of solutions and of failures that have priority
    term: what is summed for the length of a trajectory
  """
  valid = x.batch.turns.valid
  length = jnp.sum(jnp.where(valid, x.batch.turns.terms[term], 0), axis=1)
  return _weighing(x, length, share)


def _weighing(x: LinkInputs, length: Array, share: float) -> Linked:
  index, live = segment.index(x.batch), counting.trajectories(x.batch)
  first = priority(x.batch, length, share)
  weight = index.trajectories_to_tokens(first.astype(jnp.float32))
  count = jnp.sum(live).astype(jnp.float32)
  metrics = {'priority': (jnp.sum(first).astype(jnp.float32), count)}
  return x.credit.replace(weight=x.credit.weight * weight), metrics


def priority(batch: Batch, length: Array, share: float) -> Array:
  """Marks trajectories of the priority batch, of those that count: [B] bool.

  Args:
    length: [B]
  """
  live, ids = (
    counting.trajectories(batch),
    segment.compact_ids(batch.ids['group']),
  )
  won = live & (batch.outcome > 0.5)
  lost = live & ~won
  length = length.astype(jnp.float32)

  def best(x, members):
    n = segment.segment_sum(members.astype(jnp.float32), ids)
    # 0.8 of 5 is 4, whatever rounding makes of it.
    return members & (
      segment.rank(x, ids, members) < jnp.ceil(share * n - 1e-4)
    )

  return best(length, won) | best(-length, lost)
