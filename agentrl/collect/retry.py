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
from agentrl.types import Array, Attempts, Batch, CollectInputs, Metrics


@registry.register('collect', needs=('column:prefix',))
def guided_retry(x: CollectInputs) -> Batch:
  """Attempts without a prefix, and with it in groups that all failed.

  Args:
    attempts: with the prefixes of guided ones; groups stand together
  """
  free, prefix = x.attempts, x.attempts.prefix
  if prefix is not None:
    free = x.attempts.replace(
      prefix=prefix.replace(turns=jnp.zeros_like(prefix.turns))
    )
  return _retried(x, free, x.attempts)


def measure_hints(batch: Batch) -> Metrics:
  """Measures the share of what was sampled behind a hint."""
  live = counting.trajectories(batch).astype(jnp.float32)
  return {'hinted': (jnp.sum(live * batch.ids['hinted']), jnp.sum(live))}


@registry.register(
  'collect', needs=('env:hints', 'reading:{reading}'), metrics=measure_hints
)
def hinted_retry(
  x: CollectInputs, *, reading: domain.Named = 'guidance'
) -> Batch:
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
    x.attempts.replace(hinted=jnp.full(x.attempts.task.shape, hint))
    for hint in (False, True)
  )
  return _retried(x, free, hinted)


def _retried(x: CollectInputs, first: Attempts, second: Attempts) -> Batch:
  """Makes the first attempts, and the second ones where a group failed."""
  one = x.score(x.sample(first, x.key))
  failed = failed_groups(one)
  again = second.replace(limit=jnp.where(failed, second.limit, 0))
  two = x.score(x.sample(again, jax.random.fold_in(x.key, 1)))
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
