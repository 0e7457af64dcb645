"""Sampling again, with guidance, where a whole group failed.

Agent-RLVR (arXiv 2506.11425): guidance only where the policy gets nowhere
unaided. Second attempts replace the first; both are charged, but only the first
measure how hard a task is (Batch.attempted). Trajectories that do not count
neither solve nor fail a task.
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
  """Samples without a prefix, then with it in groups that all failed.

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
  """Measures the share of trajectories sampled with a hint."""
  live = counting.trajectories(batch).astype(jnp.float32)
  return {'hinted': (jnp.sum(live * batch.ids['hinted']), jnp.sum(live))}


@registry.register(
  'collect', needs=('env:hints', 'reading:{reading}'), metrics=measure_hints
)
def hinted_retry(
  x: CollectInputs, *, reading: domain.Named = 'guidance'
) -> Batch:
  """Samples without a hint, then with it in groups that all failed.

    y ~ pi(. | hint, x),   trained on as a response to x alone

  Behaviour log-probs are conditioned on the hint, so importance weights
  (links `truncated_is`, `masked_is`) are pi(y | x) / pi(y | hint, x).

  Args (hyper-parameters):
    reading: of c.reading, the one that holds the hint
  """
  del reading  # the sampler has its hints
  free, hinted = (
    x.attempts.replace(hinted=jnp.full(x.attempts.task.shape, hint))
    for hint in (False, True)
  )
  return _retried(x, free, hinted)


def _retried(x: CollectInputs, first: Attempts, second: Attempts) -> Batch:
  """Samples first attempts, and second ones where a group failed."""
  one = x.score(x.sample(first, x.key))
  failed = failed_groups(one)
  again = second.replace(limit=jnp.where(failed, second.limit, 0))
  two = x.score(x.sample(again, jax.random.fold_in(x.key, 1)))
  return replaced(one, two, failed)


def failed_groups(batch: Batch) -> Array:
  """Marks members of groups that failed as a whole: [B] bool.

  Of the counted members at least one failed and none succeeded.
  """
  group, live = select.group_ids(batch), counting.trajectories(batch)
  best = segment.segment_max(batch.outcome, group, live)
  return jnp.isfinite(best) & (best <= 0.5)


def replaced(one: Batch, two: Batch, where: Array) -> Batch:
  """Replaces trajectories of `one` by those in `two` where `where` [B] is set.

  Both batches hold the same attempts. Sampling counts are added, and the
  attempted tasks are concatenated.
  """
  b = one.outcome.shape[0]
  index = jnp.arange(b, dtype=jnp.int32)
  both = dynamic.one_after_another(one, two)
  return dynamic.take(both, jnp.where(where, b + index, index))
