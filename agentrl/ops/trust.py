"""Trust in a label that several attempts voted for."""

import jax.numpy as jnp

from agentrl.types import Array


def trust(p: Array, *, low: float = 0.3, high: float = 0.8) -> Array:
  """u = min(max((p − low) / (high − low), 0), 1)   (Agent0, 2511.16043)

  Args:
    p: share of the attempts that gave the label, of any shape
    low, high: shares of no and of full trust; equal: a step
  """
  return jnp.clip((p - low) / max(high - low, 1e-6), 0, 1)
