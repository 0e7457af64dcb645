"""Weights of prefixes: messages that were given, trained on or not."""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.ops import counting
from agentrl.types import Batch, Span


@registry.register('curate', needs=('span:prefix',), gives=('weight:prefix',))
def train_prefix(batch: Batch) -> Batch:
  """Gives weight 1 to the tokens of prefixes, as to those that were sampled.

  Of trajectories that count. Losses that look at sampled tokens only see no
  difference.
  """
  rows, live = batch.rows, counting.trajectories(batch)
  there = segment.index(batch).trajectories_to_tokens(live)
  prefix = there & (rows.span == Span.PREFIX)
  weight = jnp.where(prefix, 1.0, rows.weight)
  return batch.replace(rows=rows.replace(weight=weight))
