"""Logistic regression of few features, by Newton's method."""

import jax
import jax.numpy as jnp

from agentrl.types import Array

ROUNDS = 25


def fit(
  x: Array, y: Array, *, weight: Array, offset: Array, ridge: float
) -> Array:
  """Returns the coefficients w that minimise a penalised cross-entropy: [F].

    Σ_i weight_i BCE(σ(offset_i + x_i · w), y_i) + ridge |w|² / 2

  The objective is strictly convex; steps that do not lower it are halved.

  Args:
    x: [N, F]
    y: [N] in [0, 1]
    weight: [N] >= 0
    offset: [N]
    ridge: > 0
  """

  def loss(w):
    z = offset + x @ w
    each = jax.nn.softplus(z) - y * z
    return jnp.sum(weight * each) + 0.5 * ridge * jnp.sum(jnp.square(w))

  def newton(_, w):
    p = jax.nn.sigmoid(offset + x @ w)
    slope = x.T @ (weight * (p - y)) + ridge * w
    curve = x.T @ ((weight * p * (1 - p))[:, None] * x)
    curve += ridge * jnp.eye(w.size, dtype=w.dtype)
    move = jnp.linalg.solve(curve, slope)
    scale = 0.5 ** jnp.arange(8, dtype=w.dtype)
    tried = w[None] - scale[:, None] * move[None]
    costs = jax.vmap(loss)(tried)
    best = jnp.argmin(costs)
    return jnp.where(costs[best] < loss(w), tried[best], w)

  return jax.lax.fori_loop(0, ROUNDS, newton, jnp.zeros(x.shape[1], x.dtype))
