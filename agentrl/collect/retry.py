"""Sampling again, with guidance, where a whole group failed."""

import jax
import jax.numpy as jnp

from agentrl import counting, registry, segment
from agentrl.collect import dynamic
from agentrl.curate import select
from agentrl.types import Array, Attempts, Batch


@registry.register('collect', needs=('column:prefix',))
def guided_retry(sample, score, attempts: Attempts, memory, carry, key):
  """Attempts without a prefix, and with it in groups that all failed.

  Agent-RLVR (arXiv 2506.11425): guidance only where the policy by itself gets
  nowhere. The second attempts take the place of the first; both are charged,
  and only the first say how hard a task is (Batch.attempted). What does not
  count neither solves nor fails a task.

  Args:
    attempts: with the prefixes of guided ones; groups stand together
  """
  free, prefix = attempts, attempts.prefix
  if prefix is not None:
    free = attempts.replace(
      prefix=prefix.replace(turns=jnp.zeros_like(prefix.turns))
    )
  one: Batch = score(sample(free, key))
  failed = failed_groups(one)
  again = attempts.replace(limit=jnp.where(failed, attempts.limit, 0))
  two: Batch = score(sample(again, jax.random.fold_in(key, 1)))
  return replaced(one, two, failed), carry


def failed_groups(batch: Batch) -> Array:
  """Members of groups that failed as a whole: [B] bool.

  Of those that count at least one failed and none succeeded.
  """
  group, live = select.group_ids(batch), counting.trajectories(batch)
  best = segment.segment_max(batch.outcome, group, live)
  return jnp.isfinite(best) & (best <= 0.5)


def replaced(one: Batch, two: Batch, where: Array) -> Batch:
  """The trajectories of `one`, those of `two` where it says so [B] bool.

  Both are of the same attempts. Sampling counts are added up, and what was
  attempted stands one after the other.
  """
  b = one.outcome.shape[0]
  index = jnp.arange(b, dtype=jnp.int32)
  both = dynamic.one_after_another(one, two)
  return dynamic.take(both, jnp.where(where, b + index, index))
