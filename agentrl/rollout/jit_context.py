"""What the policy reads in a turn of a rollout inside jit.

Slots hold how far their trajectories are; contexts are made of it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.rollout.actor import Prompt
from agentrl.rollout.jit_sizes import RolloutSizes, TokenizedEnv
from agentrl.rollout.record import Record
from agentrl.text import jit_template, observation_tokens
from agentrl.types import Array, Attempts


class Slots(struct.PyTreeNode):
  """Trajectories under way in n slots."""

  traj: Array  # [n] i32  B: idle
  turn: Array  # [n] i32
  filled: Array  # [n] i32  positions in the cache
  state: Any  # of the environment
  obs: Array  # [n, O] i32
  last: Array  # [n] i32  last token sampled: not yet in the cache
  past: Array  # [n, W, C'] i32  earlier exchanges, oldest first
  past_len: Array  # [n, W] i32
  follows: Array  # [n] bool  the world has shown what its prefix answered
  cold: Array  # [n] bool  its cache lacks what it goes on from
  waiting: Array  # [] i32  place in the queue of the next one to start
  record: Record
  # jit_compaction.Segments, where conversations begin anew
  segments: Any = None


def hash_states(plan: RolloutSizes, slots: Slots, obs, obs_len):
  """Returns the state ids of what is observed: [n] i32."""
  if plan.anchor == 1:
    return jax.vmap(observation_tokens.content_hash)(obs, obs_len)
  return jax.vmap(lambda o: observation_tokens.partial_hash(o, plan.anchor))(
    slots.obs
  )


def observe(world: TokenizedEnv, obs):
  """Returns the tokens of an observation."""
  if world.frame:
    obs = jit_template.strip(world.frame, obs)
  return observation_tokens.render(world.pieces, obs)


def read_notes(plan: RolloutSizes, attempts: Attempts, at, fresh):
  """Reads each slot's memory before it observes: [n, H] and [n].

  Args:
    fresh: [n] bool  it reads nothing before
  """
  n = fresh.shape[0]
  if attempts.notes is None:
    return jnp.zeros((n, plan.notes), jnp.int32), jnp.zeros(n, jnp.int32)
  length = attempts.notes.length[at]
  return attempts.notes.tokens[at], jnp.where(fresh, length, 0)


def join_context(
  world: TokenizedEnv, plan: RolloutSizes, slots: Slots, obs, obs_len, notes
):
  """Joins the tokens that are new to the model, as they go into the record."""
  parts = [(obs, obs_len)]
  if plan.history == 'turn':
    past = range(plan.window - 1)
    parts = [*((slots.past[:, i], slots.past_len[:, i]) for i in past), *parts]
  if plan.notes:
    parts = [notes, *parts]
  if world.frame:  # its tokens before the observation, [n, ·] and [n]
    if plan.history == 'full':
      begin = jax.vmap(jit_template.opening, (None, 0, 0))
      opening = begin(world.frame, slots.turn, slots.last)
    else:
      opening = _first(world.frame, slots.turn.shape[0])
    parts = [opening, *parts]
  join = jax.vmap(observation_tokens.concat)
  return join(parts) if len(parts) > 1 else parts[0]


def _first(frame: jit_template.JitTemplate, n: int):
  size = frame.first.shape[0]
  first = jnp.broadcast_to(frame.first, (n, size))
  return first, jnp.full(n, size, jnp.int32)


def first_context(world: TokenizedEnv, obs: Array) -> tuple[Array, Array]:
  """Returns what is read of first observations [n, O]: [n, C] i32, [n] i32."""
  part = jax.vmap(lambda o: observe(world, o))(obs)
  if not world.frame:
    return part
  parts = [_first(world.frame, obs.shape[0]), part]
  return jax.vmap(observation_tokens.concat)(parts)


def make_prompt(
  plan: RolloutSizes, slots: Slots, context, context_len, fresh
) -> Prompt:
  """Makes the context behind the last sampled token, which is not cached yet.

  start is None where every turn is the first of its context.

  Args:
    fresh: [n] bool  it reads nothing before
  """
  unset: dict[str, Any] = {'keys': None, 'temperature': None, 'idle': None}
  ids = {'traj': slots.traj, 'turn': slots.turn}
  if plan.history == 'turn' or plan.turns == 1:
    return Prompt(context, context_len, None, **unset, **ids)
  pending = (~fresh).astype(jnp.int32)
  tokens, length = jax.vmap(observation_tokens.concat)(
    [(slots.last[:, None], pending), (context, context_len)]
  )
  return Prompt(tokens, length, slots.filled, **unset, **ids)


def remember(
  world: TokenizedEnv, plan: RolloutSizes, slots: Slots, obs, obs_len, message
):
  if plan.window == 1:
    return slots.past, slots.past_len
  parts = [(obs, obs_len), (message.tokens, message.length)]
  if world.frame:
    end = jax.vmap(jit_template.ended, (None, 0))
    parts.append(end(world.frame, last_tokens(message)))
  exchange, length = jax.vmap(observation_tokens.concat)(parts)
  push = lambda old, new: jnp.concatenate([old[:, 1:], new[:, None]], axis=1)  # noqa: E731
  return push(slots.past, exchange), push(slots.past_len, length)


def last_tokens(message):
  at = jnp.maximum(message.length - 1, 0)[:, None]
  return jnp.take_along_axis(message.tokens, at, axis=1)[:, 0]
