"""Control flow that copies nothing, and that lanes of a vmap take together.

XLA copies an array that a conditional returns on any of its ways, and updates
one that a loop carries in place. Under vmap a predicate that differs between
lanes makes both branches run, so the predicates here are those of all lanes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from agentrl.types import Array

T = TypeVar('T')


@jax.custom_batching.custom_vmap
def lane_max(x: Array) -> Array:
  """Returns the largest x over a vmap's lanes; of bools, if any is true."""
  return x


@lane_max.def_vmap
def _lane_max(size, batched, x):
  del size, batched
  return lane_max(jnp.max(x, axis=0)), False


def lane_all(x: Array) -> Array:
  """Returns whether x [] bool is true in all lanes of a vmap."""
  return ~lane_max(~x)


def apply_if(predicate: Array, f: Callable[..., T], x: T, *args: Any) -> T:
  """Runs f(x, *args) if the predicate is true in any lane, else x, not copied.

  Args:
    predicate: [] bool
    f: changes nothing in lanes whose own predicate is false. What it computes
      from arrays other than x and args alone may be computed in any case.
  """

  def once(i, x):
    # XLA computes outside of a loop whatever does not change within it.
    _, own = jax.lax.optimization_barrier((i, args))
    return f(x, *own)

  rounds = lane_max(predicate).astype(jnp.int32)
  return jax.lax.fori_loop(0, rounds, once, x)
