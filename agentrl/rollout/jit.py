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

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit import base as env_base
from agentrl.rollout import actor as actor_lib
from agentrl.rollout import keys as keys_lib
from agentrl.rollout import record as record_lib
from agentrl.rollout import resumed
from agentrl.rollout.actor import Actor, Prompt
from agentrl.rollout.record import Capacity, Record
from agentrl.task import base as task_base
from agentrl.text import action_parsing, jit_template, observation_tokens
from agentrl.types import Array, Attempts, Messages, Prefix, Span, Status


@dataclasses.dataclass(frozen=True)
class RolloutSizes:
  """Capacities of a rollout.

  history: 'turn' rebuilds the context of each turn from the last `window`
  observations (and the messages between them); 'full' keeps one growing
  context, in which a turn costs only its new tokens.
  anchor: the share of an observation's places that its state id looks at; 1:
  turns of one state saw the same, less: they saw much the same.
  notes: tokens of a memory that stand before an observation, at most; of a full
  history before the first.
  """

  slots: int
  turns: int  # K
  message: int  # M, tokens of a message with its end of turn
  history: str = 'turn'
  window: int = 1
  context: int = 0  # tokens of a full history; 0: whatever K turns need
  anchor: float = 1.0
  notes: int = 0

  def __post_init__(self):
    if self.history not in ('turn', 'full'):
      raise ValueError(
        f"rollout.history={self.history!r} is unknown; choose 'turn' (context"
        " rebuilt from the last observations) or 'full' (one growing context)"
      )
    for name in ('slots', 'turns', 'message', 'window'):
      if (value := getattr(self, name)) < 1:
        raise ValueError(f'rollout.{name}={value} must be at least 1')
    if not 0 < self.anchor <= 1:
      raise ValueError(
        f'rollout.state_hash_fraction={self.anchor} is a share of the'
        ' observation; set it above 0 and to at most 1, which tells every two'
        ' observations apart'
      )


@struct.dataclass
class TokenizedEnv:
  """An environment with the token tables of its observations and actions."""

  pieces: observation_tokens.PieceTable
  actions: action_parsing.ActionTable
  tasks: Any  # the task set: arrays [n_tasks, ...]
  env: env_base.JitEnv = struct.field(pytree_node=False)
  # Around turns; its `after` is the suffix of the pieces. None: nothing is.
  frame: jit_template.JitTemplate | None = None
  # The environment's own moves, which the actor is told; None: it writes.
  mover: env_base.Mover | None = struct.field(pytree_node=False, default=None)

  @property
  def obs_tokens(self) -> int:
    """The most tokens of an observation, with what always stands behind it."""
    p = self.pieces
    around = p.prefix.shape[0] + p.suffix.shape[0]
    return around + self.env.obs_len * p.tokens.shape[1]

  @property
  def first_tokens(self) -> int:
    """Tokens before the first observation."""
    return self.frame.first.shape[0] if self.frame else 0

  @property
  def between_tokens(self) -> int:
    """The most tokens between a message and the next observation."""
    return self.frame.between if self.frame else 0


def turn_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """The most tokens that a later turn adds to a conversation."""
  return world.between_tokens + world.obs_tokens + plan.message


def context_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """C: the most tokens that are new to the model in a turn."""
  new = world.obs_tokens + plan.notes
  if plan.history == 'full':
    return max(world.first_tokens, world.between_tokens) + new
  extra = (plan.window - 1) * turn_tokens(world, plan)
  return world.first_tokens + new + extra


def row_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """T: tokens of a row of the plan's own layout."""
  if plan.history == 'turn':
    return context_tokens(world, plan) + plan.message
  begin = world.first_tokens - world.between_tokens + plan.notes
  return plan.context or begin + plan.turns * turn_tokens(world, plan)


def capacity(world: TokenizedEnv, plan: RolloutSizes) -> Capacity:
  """A slot's cache holds a row, and a sampled token not yet prefilled."""
  row = row_tokens(world, plan)
  return Capacity(context_tokens(world, plan), row, row + 1)


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
  return jax.lax.while_loop(busy, tick, (slots, cache))[0].record


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
  if plan.history == 'full' and plan.turns > 1:
    layout = record_lib.full_history(record, row_tokens(world, plan))
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
      world.env.columns,
    ),
  )
  if begun is None:
    return slots
  slots = slots.replace(record=begun.slots.record)
  return resumed.taken_over(slots, begun, jnp.ones(n, bool))


def _reset(world, attempts, keys, traj):
  at = jnp.minimum(traj, attempts.task.shape[0] - 1)
  task = jax.tree.map(lambda x: x[attempts.task[at]], world.tasks)
  return jax.vmap(world.env.reset)(keys_lib.start(keys, at), task)


def play_turn(world, plan, actor, attempts, keys, slots: Slots, cache):
  """Plays a turn in every slot: -> slots, whether each has ended, cache."""
  b = attempts.task.shape[0]
  at = jnp.minimum(slots.traj, b - 1)
  message_keys, env_keys = keys_lib.turn(keys, at, slots.turn)
  obs, obs_len = jax.vmap(lambda o: _observed(world, o))(slots.obs)
  notes = _notes(plan, attempts, at, slots.turn)
  context, context_len = _context(world, plan, slots, obs, obs_len, notes)
  states = _states(plan, slots, obs, obs_len)
  given, follows = _given(attempts, slots, at, states)
  prompt = _prompt(plan, slots, context, context_len)._replace(
    keys=message_keys,
    temperature=attempts.temperature[at],
    idle=slots.traj >= b,
    given=given,
  )
  if world.mover is not None:
    move = jax.vmap(world.mover)(slots.state, message_keys)
    prompt = prompt._replace(move=move)
  message, cache = actor.say(cache, prompt)

  action = jax.vmap(lambda t, n: action_parsing.parse(world.actions, t, n))(
    message.tokens, message.length
  )
  state, next_obs, reward, done = jax.vmap(world.env.step)(
    slots.state, action, env_keys
  )
  info = jax.vmap(world.env.info)(slots.state, action, state)
  score = jax.vmap(world.env.score)(state)
  filled = slots.filled  # stays 0 where every turn starts afresh
  if prompt.start is not None:
    filled = prompt.start + prompt.length + message.length - 1
  status, over = _status(world, plan, attempts, slots, filled, done, score, at)

  turn = dict(
    context=context,
    context_len=context_len,
    message=message.tokens,
    message_len=message.length,
    logp=message.logp,
    entropy=message.entropy,
    action=action,
    reward=reward,
    columns=info,
    state=states,
    valid=jnp.ones_like(done),
  )
  if attempts.prefix is not None and attempts.prefix.forced:
    size = message.tokens.shape[1:]
    turn['span'] = jnp.broadcast_to(
      jnp.where(given, Span.PREFIX, Span.OTHER)[:, None], (given.size, *size)
    )
    turn['entropy'] = jnp.where(given, 0.0, message.entropy)
  record = record_lib.put(slots.record, slots.traj, slots.turn, turn)
  ended = jnp.where(over, slots.traj, b)
  record = record.replace(
    status=record.status.at[ended].set(status, mode='drop'),
    outcome=record.outcome.at[ended].set(score, mode='drop'),
  )
  past, past_len = _remember(world, plan, slots, obs, obs_len, message)
  slots = slots.replace(
    turn=slots.turn + 1,
    filled=filled,
    state=state,
    obs=next_obs,
    last=_last(message),
    past=past,
    past_len=past_len,
    follows=follows,
    cold=jnp.zeros_like(slots.cold),
    record=record,
  )
  return slots, over, cache


def _given(attempts: Attempts, slots: Slots, at, states):
  """Slots whose message is given, and those still in the world of its prefix.

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


def _states(plan: RolloutSizes, slots: Slots, obs, obs_len):
  """The state ids of what is observed: [n] i32."""
  if plan.anchor == 1:
    return jax.vmap(observation_tokens.content_hash)(obs, obs_len)
  return jax.vmap(lambda o: observation_tokens.partial_hash(o, plan.anchor))(
    slots.obs
  )


def _observed(world: TokenizedEnv, obs):
  """The tokens of an observation."""
  if world.frame:
    obs = jit_template.strip(world.frame, obs)
  return observation_tokens.render(world.pieces, obs)


def _notes(plan: RolloutSizes, attempts: Attempts, at, turn):
  """What each slot reads of a memory before it observes: [n, H] and [n]."""
  n = turn.shape[0]
  if attempts.notes is None:
    return jnp.zeros((n, plan.notes), jnp.int32), jnp.zeros(n, jnp.int32)
  length = attempts.notes.length[at]
  first = plan.history == 'turn' or turn == 0
  return attempts.notes.tokens[at], jnp.where(first, length, 0)


def _context(
  world: TokenizedEnv, plan: RolloutSizes, slots: Slots, obs, obs_len, notes
):
  """The tokens that are new to the model, as they go into the record."""
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
  part = jax.vmap(lambda o: _observed(world, o))(obs)
  if not world.frame:
    return part
  parts = [_first(world.frame, obs.shape[0]), part]
  return jax.vmap(observation_tokens.concat)(parts)


def _prompt(plan: RolloutSizes, slots: Slots, context, context_len) -> Prompt:
  """Context behind the last sampled token, which is not in the cache yet.

  start is None where every turn is the first of its context.
  """
  unset: dict[str, Any] = {'keys': None, 'temperature': None, 'idle': None}
  ids = {'traj': slots.traj, 'turn': slots.turn}
  if plan.history == 'turn' or plan.turns == 1:
    return Prompt(context, context_len, None, **unset, **ids)
  pending = (slots.turn > 0).astype(jnp.int32)
  tokens, length = jax.vmap(observation_tokens.concat)(
    [(slots.last[:, None], pending), (context, context_len)]
  )
  return Prompt(tokens, length, slots.filled, **unset, **ids)


def _remember(
  world: TokenizedEnv, plan: RolloutSizes, slots: Slots, obs, obs_len, message
):
  if plan.window == 1:
    return slots.past, slots.past_len
  parts = [(obs, obs_len), (message.tokens, message.length)]
  if world.frame:
    end = jax.vmap(jit_template.ended, (None, 0))
    parts.append(end(world.frame, _last(message)))
  exchange, length = jax.vmap(observation_tokens.concat)(parts)
  push = lambda old, new: jnp.concatenate([old[:, 1:], new[:, None]], axis=1)  # noqa: E731
  return push(slots.past, exchange), push(slots.past_len, length)


def _last(message):
  at = jnp.maximum(message.length - 1, 0)[:, None]
  return jnp.take_along_axis(message.tokens, at, axis=1)[:, 0]


def _status(world, plan, attempts, slots, filled, done, score, at):
  """Status of each slot's trajectory if it ends now, and whether it does."""
  limit = attempts.limit[at]
  late = slots.turn + 1 >= jnp.minimum(limit, plan.turns)
  cut = jnp.where(limit < plan.turns, Status.SCHEDULE, Status.TURN_LIMIT)
  need = 1 + turn_tokens(world, plan)
  room = plan.history == 'turn' or filled + need <= row_tokens(world, plan)
  status = jnp.where(
    done,
    jnp.where(score > 0, Status.SOLVED, Status.FAILED),
    jnp.where(late, cut, Status.TOKEN_LIMIT),
  )
  return status.astype(jnp.int32), done | late | ~jnp.asarray(room)


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
  return slots if begun is None else resumed.taken_over(slots, begun, over)
