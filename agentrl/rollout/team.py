"""Actors of several policies: each trajectory is written by one of them.

Actors speak one after the other, each for the slots of its own trajectories
while the others idle; one that has no slot is not computed. A slot's cache is
of one actor at a time, since a trajectory keeps its actor to the end.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.nn import control_flow
from agentrl.rollout import resumed
from agentrl.rollout.actor import Actor, Prompt, SampledMessage, silence
from agentrl.types import Array


@dataclasses.dataclass(frozen=True, eq=False)
class TeamActor:
  """The actors of a rollout whose trajectories are of several policies.

  Their caches have one shape, so that any of them can take over a slot. What
  trajectory b says depends on its own actor alone, not on the others.

    actors = [actor.model(shape, p, message=8, eot=eot) for p in params]
    team = TeamActor(actors, role=jnp.arange(b) % 2, message=8)
    record = seats.rollout(world, sizes, team, attempts, key)

  Args:
    role: [B] i32, index of each trajectory's actor
    message: M, tokens of a message
  """

  actors: tuple[Actor, ...]
  role: Array
  message: int

  def cache(self, n: int, capacity: int) -> Any:
    return self.actors[0].cache(n, capacity)

  def say(self, cache: Any, prompt: Prompt) -> tuple[SampledMessage, Any]:
    n = prompt.length.shape[0]
    role = self.role[jnp.minimum(prompt.traj, self.role.shape[0] - 1)]  # [n]
    keeps = prompt.start is not None  # else a turn needs no cache but its own
    out = silence(n, self.message), cache if keeps else ()
    for i, actor in enumerate(self.actors):

      def speak(out, tokens, mine, actor=actor):
        own = prompt._replace(tokens=tokens, idle=~mine)
        said, after = actor.say(out[1] if keeps else cache, own)
        new = said, after if keeps else ()
        return jax.tree.map(lambda x, y: resumed.where(mine, x, y), new, out)

      mine = (role == i) & ~prompt.idle  # [n]
      out = control_flow.apply_if(
        jnp.any(mine), speak, out, prompt.tokens, mine
      )
    return out[0], out[1] if keeps else cache

  def read(self, cache: Any, tokens: Array, length: Array) -> Any:
    """Refuses turns that are given: what was read would be of one actor."""
    raise ValueError(
      'attempts that a team plays must have no turns that are given, got a'
      f' prefix for {len(self.actors)} actors'
    )
