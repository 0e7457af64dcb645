"""Sampling again, with guidance, where a whole group failed.

Agent-RLVR (arXiv 2506.11425): guidance only where the policy by itself gets
nowhere. The second attempts take the place of the first; both are charged, and
only the first say how hard a task is (Batch.attempted). What does not count
neither solves nor fails a task.
"""

import jax
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.collect import dynamic
from agentrl.curate import select
from agentrl.ops import counting
from agentrl.types import Array, Attempts, Batch, Metrics


@registry.register('collect', needs=('column:prefix',))
def guided_retry(sample, score, attempts: Attempts, memory, carry, key):
  """Attempts without a prefix, and with it in groups that all failed.

  Args:
    attempts: with the prefixes of guided ones; groups stand together
  """
  free, prefix = attempts, attempts.prefix
  if prefix is not None:
    free = attempts.replace(
      prefix=prefix.replace(turns=jnp.zeros_like(prefix.turns))
    )
  return _retried(sample, score, free, attempts, key), carry


def measure_hints(batch: Batch) -> Metrics:
  """Measures the share of what was sampled behind a hint."""
  live = counting.trajectories(batch).astype(jnp.float32)
  return {'hinted': (jnp.sum(live * batch.ids['hinted']), jnp.sum(live))}


@registry.register(
  'collect', needs=('env:hints', 'reading:{reading}'), metrics=measure_hints
)
def hinted_retry(
  sample,
  score,
  attempts: Attempts,
  memory,
  carry,
  key,
  *,
  reading: domain.Named = 'guidance',
):
  """Attempts without a hint, and behind it in groups that all failed.

    y ~ pi(. | hint, x),   trained on as y behind x alone

  Log-probs of the behaviour are those behind the hint, so that importance
  weights to them (links `truncated_is`, `masked_is`) are of pi(y | x) over
  pi(y | hint, x).

  Args (hyper-parameters):
    reading: of c.reading, whose hint it is
  """
  del reading  # the sampler has its hints
  free, hinted = (
    attempts.replace(hinted=jnp.full(attempts.task.shape, x))
    for x in (False, True)
  )
  return _retried(sample, score, free, hinted, key), carry


def _retried(sample, score, first: Attempts, second: Attempts, key) -> Batch:
  """The first attempts, and the second ones where a whole group failed."""
  one: Batch = score(sample(first, key))
  failed = failed_groups(one)
  again = second.replace(limit=jnp.where(failed, second.limit, 0))
  two: Batch = score(sample(again, jax.random.fold_in(key, 1)))
  return replaced(one, two, failed)


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
