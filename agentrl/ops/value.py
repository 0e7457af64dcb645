"""Regression of a value."""

import jax.numpy as jnp

from agentrl.types import Array


def clipped_error(
  value: Array, target: Array, old: Array, clip: float
) -> tuple[Array, Array]:
  """½ max((v − R)², (clip(v, v_old ± c) − R)²), and whether the latter won.

  That is where the clip takes the gradient away; far from v_old alone is not
  enough: a value that is further from R than its bound keeps its gradient.

  The bounds are clipped to, not the difference: v_old + (v − v_old) is v only
  up to rounding, which would pass for clipping.
  """
  near = jnp.clip(value, old - clip, old + clip)
  plain, clipped = jnp.square(value - target), jnp.square(near - target)
  return jnp.maximum(plain, clipped) / 2, clipped > plain
