"""Numbers of whole trajectories: from the terms of their turns, and back.

A reward of a trajectory stands on the last turn that happened. Turns whose
judge failed are no exception here: links leave them out (`counting`).
"""

from collections.abc import Sequence

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.types import Array, Turns

ROUNDING = 1e-6  # of float32 numbers around 1


def last_turn(turns: Turns) -> Array:
  """The last turn that happened of each trajectory: [B, K] bool."""
  return segment.last_turn(turns.valid)


def at_last_turn(x: Array, turns: Turns) -> Array:
  """x [B] on the last turn that happened, 0 on the others: [B, K]."""
  return jnp.where(last_turn(turns), x[:, None], 0)


def total(name: str, turns: Turns, outcome: Array) -> Array:
  """Sum of a term over the turns that happened, or the task's own score: [B].

  Args:
    name: of the term; 'outcome' is the score
  """
  if name == registry.OUTCOME:
    return outcome
  return jnp.sum(jnp.where(turns.valid, turns.terms[name], 0), axis=1)


def reaches(x: Array, threshold: float) -> Array:
  """x >= threshold, to rounding."""
  return x >= threshold - ROUNDING


def passes(
  turns: Turns,
  outcome: Array,
  terms: Sequence[str],
  scales: Sequence[float],
  thresholds: Sequence[float],
) -> Array:
  """Trajectories with s_f x_f >= t_f for every term f, x its sum: [B] bool."""
  passed = jnp.ones(outcome.shape, bool)
  for name, scale, threshold in zip(terms, scales, thresholds, strict=True):
    passed &= reaches(scale * total(name, turns, outcome), threshold)
  return passed
