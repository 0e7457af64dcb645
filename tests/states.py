"""States of a run before anything is in them."""

import jax
import jax.numpy as jnp

from agentrl.types import TrainState


def state(**fields) -> TrainState:
  empty = dict(params={}, opt={}, signal={}, memory=())
  key = jax.random.key(0)
  return TrainState(**(empty | {'step': jnp.int32(0), 'key': key} | fields))
