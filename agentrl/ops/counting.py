"""Counted turns and trajectories: those that enter comparisons.

An environment or a judge that failed says nothing about the agent. A turn that
was not judged, or whose trajectory `curate.select.keep` left out as a whole,
has `turns.scored` False and is as if it were not in the batch: in no mean,
deviation, rank, pair, pool or metric, as neither success nor failure. Its
advantage is 0. `turns.valid` says that a turn happened, which is not enough to
count. A trajectory whose last turn was sampled and not played (UNPLAYED, see
collect/candidates.py) has that turn to count and no end that is known.
"""

from collections.abc import Iterable

import jax.numpy as jnp

from agentrl.domain import OneOf
from agentrl.types import Array, Batch

UNITS = ('turn', 'trajectory')
UNPLAYED = 'unplayed'  # a column [B]: 1 where no end is known
KNOWN = '_known'  # ends the name of the marks of a late term


def counted(batch: Batch, unit: str) -> Array:
  """Marks turns that count, [B, K] bool.

  Args:
    unit: 'turn', those that happened and were scored, or 'trajectory', those
      of trajectories all of whose turns were: what is known of a trajectory
      as a whole, such as its return, is otherwise unknown.
  """
  OneOf(*UNITS).check('unit', unit)
  turns = batch.turns
  scored = turns.scored
  if unit == 'trajectory':
    scored = jnp.all(turns.scored | ~turns.valid, axis=1, keepdims=True)
    scored &= played(batch)[:, None]
  return turns.valid & scored


def played(batch: Batch) -> Array:
  """Marks trajectories that were played as far as they go, [B] bool."""
  if UNPLAYED not in batch.ids:
    return jnp.ones(batch.outcome.shape, bool)
  return batch.ids[UNPLAYED] == 0


def late_terms(names: Iterable[str]) -> set[str]:
  """Finds terms of an earlier batch, which stand at the places of its turns.

  They come in twos, scores and which of them are known (judge/late.py), and say
  nothing of the turns of the batch that brings them.
  """
  every = set(names)
  late = {x for x in every if x + KNOWN in every}
  return late | {x + KNOWN for x in late}


def trajectories(batch: Batch) -> Array:
  """Marks trajectories that count, [B] bool: with turns, all of them scored."""
  return jnp.any(counted(batch, 'trajectory'), axis=1)
