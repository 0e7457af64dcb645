"""Slots of a rollout inside jit that go on from an earlier iteration.

  prefix -> environments play its messages -> Begun -> slots take it over

The policy does not decode these turns again. Where it keeps a context
(history='full') it reads all of it in one pass, with the weights of now.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.types import Array

# Of slots: how far a trajectory is. The others are of the slot itself.
PLACE = (
  'turn', 'filled', 'state', 'obs', 'last', 'past', 'past_len', 'cold',
  'segments',
)  # fmt: skip


class Begun(NamedTuple):
  """Where trajectories go on that began in earlier iterations."""

  slots: Any  # of B slots, slot b of trajectory b
  tokens: Array | None  # [B, T] i32  what caches hold; None: nothing


def played(slots: Any, tick: Callable[[Any], Any], turns: Array) -> Any:
  """Plays the first turns of B trajectories, slot b of trajectory b.

  Args:
    slots: at the beginning
    tick: plays a turn of every slot that is not idle
    turns: [B] i32
  """
  b = turns.shape[0]

  def of_slots(x):
    return {name: getattr(x, name) for name in PLACE}

  def more(slots):
    active = slots.turn < turns
    new = tick(slots.replace(traj=jnp.where(active, slots.traj, b)))
    kept = jax.tree.map(
      lambda x, y: where(active, x, y), of_slots(new), of_slots(slots)
    )
    return slots.replace(record=new.record, **kept)

  slots = jax.lax.while_loop(
    lambda slots: jnp.any(slots.turn < turns), more, slots
  )
  return slots.replace(cold=turns > 0)


def taken_over(slots: Any, begun: Begun, here: Array) -> Any:
  """Puts slots, where [n] says so, to where their trajectories have begun."""
  at = jnp.minimum(slots.traj, begun.slots.traj.shape[0] - 1)
  here &= begun.slots.turn[at] > 0
  old, new = (
    {name: getattr(x, name) for name in PLACE} for x in (slots, begun.slots)
  )
  take = lambda old, new: where(here, new[at], old)  # noqa: E731
  return slots.replace(**jax.tree.map(take, old, new))


def unread(slots: Any, tokens: Array) -> tuple[Array, Array]:
  """Returns what caches lack: tokens [n, T], and how many of them [n] i32.

  Args:
    tokens: [B, T] i32, of Begun
  """
  b = tokens.shape[0]
  lacking = slots.cold & (slots.traj < b)
  mine = tokens[jnp.minimum(slots.traj, b - 1)]
  return mine, jnp.where(lacking, slots.filled, 0)


def where(mask: Array, new: Array, old: Array) -> Array:
  """Takes the rows [n, ...] of new that the mask [n] marks, else of old."""
  return jnp.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
