"""Matches inside jit: every seat is a trajectory, a conversation of its own.

Trajectories m S .. m S + S - 1 of a batch are the seats of match m. A slot
plays a match: at each tick the seat to move reads what is new to it, writes its
message, and the game steps. So a seat's rows hold its own observations and
messages alone; of the others it reads what its observations show.

  tick            slot 0: match 3      slot 1: match 4
  0               seat 0 moves         seat 0 moves
  1               seat 1 moves         seat 1 moves
  2               seat 0 moves, over   (over before) match 5, seat 0 moves

At the end every seat gets its return on its last turn. A seat that the match
ended before its first move has no turn, and does not count.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit import base as env_base
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import jit_sizes, resumed
from agentrl.rollout import keys as keys_lib
from agentrl.rollout.actor import Actor, Prompt
from agentrl.rollout.jit_context import Slots
from agentrl.rollout.jit_sizes import RolloutSizes, TokenizedEnv
from agentrl.rollout.record import Record
from agentrl.task import base as task_base
from agentrl.types import Array, Attempts, Status

# Of slots: how far the conversation of a seat is.
OWN = ('turn', 'filled', 'last', 'past', 'past_len')


def rollout(
  world: TokenizedEnv,
  plan: RolloutSizes,
  actor: Actor,
  attempts: Attempts,
  key: jax.Array,
) -> Record:
  """Runs every attempt to its end, as `jit.rollout` does, seat by seat.

  Where the environment has one seat, an attempt is a trajectory of its own.

  Args:
    attempts: B trajectories; with S seats each run of S shares a task, which
      is the first one's

  Raises:
    ValueError: matches are cut by B, or begin with turns that are given.
  """
  env = world.env
  if isinstance(env, env_base.SeatedEnv):
    return _matches(world, plan, actor, attempts, key, env)
  record = jit_rollout.rollout(world, plan, actor, attempts, key)
  if not isinstance(env, env_base.OneSeat):
    return record
  tasks = jax.tree.map(lambda x: x[jnp.asarray(attempts.task)], world.tasks)
  return record.replace(seat=jax.vmap(env.seat_of)(tasks))


class _Seats(struct.PyTreeNode):
  """Where the S conversations of n matches are."""

  own: dict[str, Array]  # [n, S, ...]  by OWN
  spent: Array  # [n, S] bool  no turns or no room left


def _matches(
  world: TokenizedEnv,
  plan: RolloutSizes,
  actor: Actor,
  attempts: Attempts,
  key: jax.Array,
  env: env_base.SeatedEnv,
) -> Record:
  attempts, s = jax.tree.map(jnp.asarray, attempts), env.seats
  b = attempts.task.shape[0]
  if b % s or attempts.prefix is not None:
    raise ValueError(
      f'attempts at matches must be a multiple of {s} seats without turns that'
      f' are given, got {b}'
      + (' with a prefix' if attempts.prefix is not None else '')
    )
  n = min(max(plan.slots // s, 1), b // s)
  keys = keys_lib.keys(attempts, key)
  row = jnp.arange(b, dtype=jnp.int32)
  first = jnp.where(row % s == 0, attempts.limit, 0)  # stands for its match
  queue = task_base.starting(attempts.replace(limit=first))
  slots = jit_rollout.start(world, plan, attempts, keys, queue[:n])
  own = {
    name: jnp.repeat(getattr(slots, name)[:, None], s, axis=1) for name in OWN
  }
  seats = _Seats(own=own, spent=jnp.zeros((n, s), bool))

  def tick(carry):
    slots, seats, cache = carry
    now = slots.traj % s
    slots, spent, cache = jit_rollout.play_turn(
      world, plan, _AtSeat(actor, now, s), attempts, keys, slots, cache
    )
    seats = _put(seats, now, slots, spent)
    slots, ended = _settled(env, slots, seats, b)
    slots = jit_rollout.deal(world, attempts, keys, queue, slots, ended, None)
    seats = jax.tree.map(
      lambda x: resumed.where(ended, jnp.zeros_like(x), x), seats
    )
    return _to_move(env, slots, seats, b), seats, cache

  def busy(carry):
    return jnp.any(carry[0].traj < b)

  apart = plan.history == 'full' and plan.turns > 1  # contexts that are kept
  size = jit_sizes.capacity(world, plan).cache
  cache = actor.cache(n * s if apart else n, size)
  begun = _to_move(env, slots, seats, b), seats, cache
  record = jax.lax.while_loop(busy, tick, begun)[0].record
  return record.replace(seat=row % s, match=row // s)


@dataclasses.dataclass(frozen=True, eq=False)
class _AtSeat:
  """The actor, at the caches of one seat of each match."""

  actor: Actor
  seat: Array  # [n] i32
  seats: int

  def cache(self, n: int, capacity: int) -> Any:
    return self.actor.cache(n, capacity)

  def read(self, cache, tokens, length):
    return self.actor.read(cache, tokens, length)

  def say(self, cache, prompt: Prompt):
    if prompt.start is None:  # turns start afresh: nothing is kept
      return self.actor.say(cache, prompt)
    at = jnp.arange(len(self.seat)) * self.seats + self.seat
    mine = jax.tree.map(lambda x: x[at], cache)
    message, mine = self.actor.say(mine, prompt)
    put = lambda x, new: x.at[at].set(new)  # noqa: E731
    return message, jax.tree.map(put, cache, mine)


def _put(seats: _Seats, now: Array, slots: Slots, spent: Array) -> _Seats:
  """Writes down where the seats are that have just moved."""
  line = jnp.arange(len(now))
  own = {
    name: x.at[line, now].set(getattr(slots, name))
    for name, x in seats.own.items()
  }
  return _Seats(own=own, spent=seats.spent.at[line, now].set(spent))


def _settled(
  env: env_base.SeatedEnv, slots: Slots, seats: _Seats, b: int
) -> tuple[Slots, Array]:
  """Gives every seat of a match that has ended its return, status and score.

  A match ends with its game, or where the seat to move is spent.
  """
  n, s = seats.spent.shape
  over = jax.vmap(env.over)(slots.state)
  following = jax.vmap(env.seat)(slots.state)
  stuck = ~over & seats.spent[jnp.arange(n), following]
  ended = (over | stuck) & (slots.traj < b)
  traj = slots.traj[:, None] // s * s + jnp.arange(s)[None]  # [n, S]
  to = jnp.where(ended[:, None], traj, b)
  record, turn = slots.record, seats.own['turn']
  reward = jnp.where(over[:, None], jax.vmap(env.returns)(slots.state), 0.0)
  wins = jnp.where(over[:, None], jax.vmap(env.wins)(slots.state), 0.0)
  cut = record.status[jnp.minimum(traj[jnp.arange(n), following], b - 1)]
  status = jnp.where(wins > 0, Status.SOLVED, Status.FAILED)
  status = jnp.where(over[:, None], status, cut[:, None])
  moved = jnp.where(turn > 0, to, b)
  record = record.replace(
    reward=record.reward.at[moved, turn - 1].add(reward, mode='drop'),
    status=record.status.at[to].set(status, mode='drop'),
    outcome=record.outcome.at[to].set(wins, mode='drop'),
  )
  return slots.replace(record=record), ended


def _to_move(
  env: env_base.SeatedEnv, slots: Slots, seats: _Seats, b: int
) -> Slots:
  """Returns the slots, each at the seat that moves next."""
  s, seat = seats.spent.shape[1], jax.vmap(env.seat)(slots.state)
  line = jnp.arange(len(seat))
  traj = jnp.where(slots.traj < b, slots.traj // s * s + seat, b)
  own = {name: x[line, seat] for name, x in seats.own.items()}
  return slots.replace(traj=traj.astype(jnp.int32), **own)
