"""Preference losses on scores of trajectories."""

import chex
import jax
import jax.numpy as jnp

from agentrl.types import Array


def pair_loss(score: Array, weight: Array) -> Array:
  """Averages −log σ(Q(τ+) − Q(τ−)) over pairs; 0 without pairs.

  The trajectory-level DPO loss of OPRL: transitions of the environment stand
  in both of its log-ratios and cancel. Its gradient with respect to Q+ is
  −σ(Q− − Q+), so it is bounded.

  Args:
    score: Q [B]
    weight: [B, B], that of the pair (τ+, τ−)
  """
  chex.assert_shape(weight, (*score.shape, *score.shape))
  total = jnp.maximum(jnp.sum(weight), 1)
  margin = score[:, None] - score[None]
  return -jnp.sum(weight * jax.nn.log_sigmoid(margin)) / total


def pair_accuracy(score: Array, weight: Array) -> tuple[Array, Array]:
  """Counts pairs in which τ+ scores higher, a tie half: (sum, weight)."""
  margin = score[:, None] - score[None]
  right = (margin > 0) + 0.5 * (margin == 0)
  return jnp.sum(weight * right), jnp.sum(weight)
