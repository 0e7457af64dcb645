"""Numbers of whole trajectories: from the terms of their turns, and back.

A reward of a trajectory stands on the last turn that happened. Turns whose
judge failed are no exception here: links leave them out (`counting`).
"""

from collections.abc import Sequence

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.types import Array, RewardInputs, Turns

ROUNDING = 1e-6  # of float32 numbers around 1


def last_turn(turns: Turns) -> Array:
  """Marks the last turn that happened of each trajectory: [B, K] bool."""
  return segment.last_turn(turns.valid)


def at_last_turn(value: Array, turns: Turns) -> Array:
  """Puts value [B] on the last turn that happened, 0 elsewhere: [B, K]."""
  return jnp.where(last_turn(turns), value[:, None], 0)


def by_turn(reward: Array, turns: Turns) -> Array:
  """Returns a reward by turns [B, K]; one of trajectories [B] is at the last.

  Raises:
    ValueError: it has another shape.
  """
  b, k = turns.valid.shape
  shape = jnp.shape(reward)
  if shape not in ((b, k), (b,)):
    raise ValueError(
      f'a reward must have a number for each turn, {(b, k)}, or for each'
      f' trajectory, {(b,)}, got the shape {shape}'
    )
  return at_last_turn(reward, turns) if shape == (b,) else reward


def total(name: str, x: RewardInputs) -> Array:
  """Sums a term over the turns that happened, or is the outcome: [B].

  Args:
    name: of the term; 'outcome' is the score
  """
  if name == registry.OUTCOME:
    return x.outcome
  return sum_term(name, x.turns)


def sum_term(name: str, turns: Turns) -> Array:
  """Sums a term over the turns that happened: [B]."""
  return jnp.sum(jnp.where(turns.valid, turns.terms[name], 0), axis=1)


def reaches(value: Array, threshold: float) -> Array:
  """Tests value >= threshold, to rounding."""
  return value >= threshold - ROUNDING


def passes(
  x: RewardInputs,
  terms: Sequence[str],
  scales: Sequence[float],
  thresholds: Sequence[float],
) -> Array:
  """Tests s_f y_f >= t_f for every term f, y its sum: [B] bool."""
  passed = jnp.ones(x.outcome.shape, bool)
  for name, scale, threshold in zip(terms, scales, thresholds, strict=True):
    passed &= reaches(scale * total(name, x), threshold)
  return passed
