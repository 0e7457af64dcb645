"""Regression of a value."""

import jax.numpy as jnp

from agentrl.types import Array


def clipped_error(
  value: Array, target: Array, old: Array, clip: float
) -> tuple[Array, Array]:
  """½ max((v − R)², (clip(v, v_old ± c) − R)²), and whether |v − v_old| > c.

  The bounds are clipped to, not the difference: v_old + (v − v_old) is v only
  up to rounding, which would pass for clipping.
  """
  near = jnp.clip(value, old - clip, old + clip)
  error = jnp.maximum(jnp.square(value - target), jnp.square(near - target)) / 2
  return error, jnp.abs(value - old) > clip
