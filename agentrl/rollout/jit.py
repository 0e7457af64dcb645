"""Rollouts inside jit: environment and policy in one compiled call.

`slots` trajectories are under way at a time. Each tick is one turn of all of
them: prefill what is new, sample a message, step the environment. A slot whose
trajectory ended takes the next waiting one, so short ones leave no idle slot;
the loop ends when all B are done.

What trajectory b draws depends on its key and its index only, never on the
slot it ran in or on the rest of the batch. In turns that it repeats from
another trajectory (types.Copies) the environment draws what it drew there.

Turns of earlier iterations are not decoded again: environments play their
messages first, of all trajectories at once, and a slot that takes one over
reads what it goes on from in one pass (resumed.py).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.env.jit import base as env_base
from agentrl.rollout import actor as actor_lib
from agentrl.rollout import jit_compaction, jit_context, resumed
from agentrl.rollout import keys as keys_lib
from agentrl.rollout import record as record_lib
from agentrl.rollout.actor import Actor, Prompt
from agentrl.rollout.compaction import SUMMARY
from agentrl.rollout.jit_context import Slots
from agentrl.rollout.jit_sizes import (
  RolloutSizes,
  TokenizedEnv,
  capacity,
  context_tokens,
  row_tokens,
  turn_tokens,
)
from agentrl.rollout.record import Record
from agentrl.task import base as task_base
from agentrl.text import action_parsing
from agentrl.types import (
  Array,
  Attempts,
  Copies,
  Messages,
  Prefix,
  Span,
  Status,
)


def rollout(
  world: TokenizedEnv,
  plan: RolloutSizes,
  actor: Actor,
  attempts: Attempts,
  key: jax.Array,
) -> Record:
  """Runs every attempt to its end.

  Args:
    attempts: B trajectories
    key: of this iteration; trajectory b uses fold_in(key, b), counted on from
      the trajectories that a prefix is of

  Raises ValueError for an environment of several seats (rollout/seats.py).
  """
  if isinstance(world.env, env_base.SeatedEnv):
    raise ValueError(
      f'{type(world.env).__name__} must be played by rollout.seats, a'
      f' conversation for each of its {world.env.seats} seats, got one for all'
    )
  attempts = jax.tree.map(jnp.asarray, attempts)
  b = attempts.task.shape[0]
  n = min(plan.slots, b)
  keys = keys_lib.keys(attempts, key)
  queue, begun = task_base.starting(attempts), None
  if attempts.prefix is not None and attempts.prefix.resumed:
    prefix, attempts = attempts.prefix, attempts.replace(prefix=None)
    begun = _replay(world, plan, attempts, prefix, keys)
  slots = start(world, plan, attempts, keys, queue[:n], begun)

  def busy(carry):
    return jnp.any(carry[0].traj < b)

  def tick(carry):
    slots, cache = carry
    if begun is not None and begun.tokens is not None:
      cache = actor.read(cache, *resumed.unread(slots, begun.tokens))
    slots, over, cache = play_turn(
      world, plan, actor, attempts, keys, slots, cache
    )
    return deal(world, attempts, keys, queue, slots, over, begun), cache

  cache = actor.cache(n, capacity(world, plan).cache)
  record = jax.lax.while_loop(busy, tick, (slots, cache))[0].record
  rule = plan.compaction
  return record if rule is None else jit_compaction.weigh(rule, record)


def _replay(
  world: TokenizedEnv,
  plan: RolloutSizes,
  attempts: Attempts,
  prefix: Prefix,
  keys: keys_lib.Keys,
) -> resumed.Begun:
  """Plays the turns of a prefix in the environments of all B trajectories."""
  b, said = (
    attempts.task.shape[0],
    record_lib.given(prefix, plan.turns, plan.message),
  )
  say = actor_lib.scripted(said.tokens, said.length, said.logp, said.entropy)
  slots = start(world, plan, attempts, keys, jnp.arange(b, dtype=jnp.int32))

  def tick(slots: Slots) -> Slots:
    return play_turn(world, plan, say, attempts, keys, slots, ())[0]

  slots = resumed.played(slots, tick, prefix.turns)
  given = jnp.arange(plan.turns)[None] < prefix.turns[:, None]
  version = jnp.where(given[..., None], said.version, -1)
  record, tokens = slots.record.replace(version=version), None
  if plan.history != 'turn' and plan.turns > 1:
    held = capacity(world, plan).cache - 1
    layout = record_lib.last_segment(record, held)
    tokens = record_lib.rows(record, layout, 0).tokens
  return resumed.Begun(slots.replace(record=record), tokens)


def start(
  world, plan, attempts, keys, traj, begun: resumed.Begun | None = None
) -> Slots:
  """Returns slots of the trajectories [n], from where they have begun."""
  b, n = attempts.task.shape[0], traj.shape[0]
  state, obs = _reset(world, attempts, keys, traj)
  zero = jnp.zeros(n, jnp.int32)
  width = turn_tokens(world, plan)
  slots = Slots(
    traj=traj,
    turn=zero,
    filled=zero,
    state=state,
    obs=obs,
    last=zero,
    past=jnp.zeros((n, plan.window - 1, width), jnp.int32),
    past_len=jnp.zeros((n, plan.window - 1), jnp.int32),
    follows=jnp.ones(n, bool),
    cold=jnp.zeros(n, bool),
    waiting=jnp.int32(n),
    record=record_lib.empty(
      b,
      plan.turns,
      context_tokens(world, plan),
      plan.message,
      jit_compaction.columns(plan.compaction, world.env.columns),
    ),
  )
  if plan.compaction is not None:
    seg = jnp.zeros((b, plan.turns), jnp.int32)
    slots = slots.replace(
      segments=jit_compaction.start(obs, plan.compaction.tokens),
      record=slots.record.replace(seg=seg),
    )
  if begun is None:
    return slots
  slots = slots.replace(record=begun.slots.record)
  return resumed.taken_over(slots, begun, jnp.ones(n, bool))


def _reset(world, attempts, keys, traj):
  at = jnp.minimum(traj, attempts.task.shape[0] - 1)
  task = jax.tree.map(lambda x: x[attempts.task[at]], world.tasks)
  return jax.vmap(world.env.reset)(keys_lib.start(keys, at), task)


class _Reading(NamedTuple):
  """What n slots read in a turn."""

  obs: Array  # [n, O'] i32  tokens of the observation
  obs_len: Array  # [n] i32
  context: Array  # [n, C] i32  what is new to the model
  context_len: Array  # [n] i32
  states: Array  # [n] i32
  fresh: Array  # [n] bool  nothing is read before the context


class _Step(NamedTuple):
  """What the environments of n slots answer."""

  action: Array  # [n] i32
  state: Any
  obs: Array  # [n, O] i32
  reward: Array  # [n] f32
  done: Array  # [n] bool
  score: Array  # [n] f32
  columns: dict[str, Array]  # [n] f32


def play_turn(world, plan, actor, attempts, keys, slots: Slots, cache):
  """Plays a turn in every slot: -> slots, whether each has ended, cache."""
  b = attempts.task.shape[0]
  at = jnp.minimum(slots.traj, b - 1)
  message_keys, env_keys = keys_lib.turn(keys, at, slots.turn)
  read = _read(world, plan, attempts, slots, at)
  given, follows = _given(attempts, slots, at, read.states)
  prompt = jit_context.make_prompt(
    plan, slots, read.context, read.context_len, read.fresh
  )._replace(
    keys=message_keys,
    temperature=attempts.temperature[at],
    idle=slots.traj >= b,
    given=given,
    begun=_begun(attempts, slots, at),
  )
  if world.mover is not None:
    move = jax.vmap(world.mover)(slots.state, message_keys)
    prompt = prompt._replace(move=move)
  message, cache = _say(world, plan, actor, slots, cache, prompt)
  step = _step(world, slots, message, env_keys)
  past, past_len = jit_context.remember(
    world, plan, slots, read.obs, read.obs_len, message
  )
  after = slots.replace(
    turn=slots.turn + 1,
    filled=_filled(slots, prompt, message),
    state=step.state,
    obs=step.obs,
    last=jit_context.last_tokens(message),
    past=past,
    past_len=past_len,
    follows=follows,
    cold=jnp.zeros_like(slots.cold),
  )
  if plan.compaction is None:
    status, over = _status(world, plan, attempts, after, step, at)
  else:
    now = jit_compaction.show(
      world, plan.compaction, slots, message, message_keys
    )
    status, over, now = jit_compaction.settle(
      world, plan, attempts, after, now, done=step.done, score=step.score, at=at
    )
    filled = jnp.where(now.begins, 0, after.filled)
    after = after.replace(segments=now, filled=filled)
  record = _write(attempts, slots, read, message, step, given)
  ended = jnp.where(over, slots.traj, b)
  record = record.replace(
    status=record.status.at[ended].set(status, mode='drop'),
    outcome=record.outcome.at[ended].set(step.score, mode='drop'),
  )
  return after.replace(record=record), over, cache


def _read(
  world: TokenizedEnv, plan: RolloutSizes, attempts: Attempts, slots: Slots, at
) -> _Reading:
  """Returns what is read in a turn."""
  obs, obs_len = jax.vmap(lambda o: jit_context.observe(world, o))(slots.obs)
  states = jit_context.hash_states(plan, slots, obs, obs_len)
  fresh, join = slots.turn == 0, jit_context.join_context
  if plan.history == 'turn':
    fresh = jnp.ones_like(fresh)
  if plan.compaction is not None:
    fresh, join = jit_compaction.fresh(slots), jit_compaction.join_context
    states = jit_compaction.hash_states(world, slots, at, states)
  notes = jit_context.read_notes(plan, attempts, at, fresh)
  context, context_len = join(world, plan, slots, obs, obs_len, notes)
  return _Reading(obs, obs_len, context, context_len, states, fresh)


def _say(
  world: TokenizedEnv, plan: RolloutSizes, actor: Actor, slots: Slots, cache, p
):
  """Returns the messages of a turn, and the cache; p: their prompt."""
  if plan.compaction is None:
    return actor.say(cache, p)
  p = p._replace(
    most=jit_compaction.tokens_at_most(plan, slots),
    turn=jit_compaction.script_turn(world, slots),
  )
  message, cache = actor.say(cache, p)
  if world.expert is not None:
    message = jit_compaction.demonstrate(world, slots, message)
  return message, cache


def _step(world: TokenizedEnv, slots: Slots, message, env_keys) -> _Step:
  """Steps the environments, but where a message is a summary."""
  action = jax.vmap(lambda t, n: action_parsing.parse(world.actions, t, n))(
    message.tokens, message.length
  )
  state, obs, reward, done = jax.vmap(world.env.step)(
    slots.state, action, env_keys
  )
  columns = jax.vmap(world.env.info)(slots.state, action, state)
  if slots.segments is not None:
    asks = slots.segments.asks

    def unless(new, old):
      return resumed.where(asks, old, new)

    zero = jax.tree.map(jnp.zeros_like, (action, reward, done, columns))
    old = (slots.state, slots.obs, *zero)
    new = (state, obs, action, reward, done, columns)
    state, obs, action, reward, done, columns = jax.tree.map(unless, new, old)
    columns |= {SUMMARY: asks.astype(jnp.float32)}
  score = jax.vmap(world.env.score)(state)
  return _Step(action, state, obs, reward, done, score, columns)


def _filled(slots: Slots, prompt: Prompt, message):
  """Returns the positions of each cache that are behind a turn."""
  if prompt.start is None:
    return slots.filled  # stays 0 where every turn starts afresh
  return prompt.start + prompt.length + message.length - 1


def _write(
  attempts: Attempts, slots: Slots, read: _Reading, message, step: _Step, given
) -> Record:
  """Writes a turn into the record."""
  turn = dict(
    context=read.context,
    context_len=read.context_len,
    message=message.tokens,
    message_len=message.length,
    logp=message.logp,
    entropy=message.entropy,
    action=step.action,
    reward=step.reward,
    columns=step.columns,
    state=read.states,
    valid=jnp.ones_like(step.done),
  )
  if slots.segments is not None:
    turn['seg'] = slots.segments.index
  if attempts.prefix is not None and attempts.prefix.forced:
    size = message.tokens.shape[1:]
    turn['span'] = jnp.broadcast_to(
      jnp.where(given, Span.PREFIX, Span.OTHER)[:, None], (given.size, *size)
    )
    turn['entropy'] = jnp.where(given, 0.0, message.entropy)
  return record_lib.put(slots.record, slots.traj, slots.turn, turn)


def _given(attempts: Attempts, slots: Slots, at, states):
  """Marks slots whose message is given, and those still in a prefix's world.

  [n] bool or None where no attempt has a prefix; [n] bool.
  """
  p = attempts.prefix
  if p is None:
    return None, slots.follows
  here, follows = slots.turn < p.turns[at], slots.follows
  if isinstance(p.messages, Messages) and p.messages.state is not None:
    k = p.messages.state.shape[1]
    then = p.messages.state[at, jnp.minimum(slots.turn, k - 1)]
    follows &= ~here | (then == states) | (then < 0)
  return here & follows, follows


def _begun(attempts: Attempts, slots: Slots, at) -> Array | None:
  """Counts the tokens that a slot's message begins with: [n] i32."""
  p = attempts.prefix
  if p is None or not isinstance(p.messages, Copies):
    return None
  if p.messages.tokens is None:
    return None
  return jnp.where(slots.turn == p.turns[at], p.messages.tokens[at], 0)


def _status(world, plan, attempts, after: Slots, step: _Step, at):
  """Returns each trajectory's status if it ends now, and whether it does."""
  limit = attempts.limit[at]
  late = after.turn >= jnp.minimum(limit, plan.turns)
  cut = jnp.where(limit < plan.turns, Status.SCHEDULE, Status.TURN_LIMIT)
  need = 1 + turn_tokens(world, plan)
  room = plan.history == 'turn' or after.filled + need <= row_tokens(
    world, plan
  )
  status = jnp.where(
    step.done,
    jnp.where(step.score > 0, Status.SOLVED, Status.FAILED),
    jnp.where(late, cut, Status.TOKEN_LIMIT),
  )
  return status.astype(jnp.int32), step.done | late | ~jnp.asarray(room)


def deal(
  world, attempts, keys, queue, slots: Slots, over, begun: resumed.Begun | None
) -> Slots:
  """Starts the next waiting trajectories in slots that are done."""
  b = attempts.task.shape[0]
  over = over | (slots.traj >= b)
  rank = jnp.cumsum(over.astype(jnp.int32)) - 1 + slots.waiting
  traj = jnp.where(over, queue[jnp.minimum(rank, b)], slots.traj)
  state, obs = _reset(world, attempts, keys, traj)

  def fresh(new, old):
    return resumed.where(over, new, old)

  zero = jnp.zeros_like(slots.turn)
  slots = slots.replace(
    traj=traj,
    turn=fresh(zero, slots.turn),
    filled=fresh(zero, slots.filled),
    state=jax.tree.map(fresh, state, slots.state),
    obs=fresh(obs, slots.obs),
    past_len=fresh(jnp.zeros_like(slots.past_len), slots.past_len),
    follows=slots.follows | over,
    waiting=jnp.minimum(slots.waiting + jnp.sum(over), b).astype(jnp.int32),
  )
  if slots.segments is not None:
    new = jit_compaction.start(obs, slots.segments.shown.shape[1])
    segments = jax.tree.map(fresh, new, slots.segments)
    slots = slots.replace(segments=segments)
  return slots if begun is None else resumed.taken_over(slots, begun, over)
