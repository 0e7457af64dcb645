"""Compaction inside jit: conversations that begin anew, slot by slot.

The rule is rollout/compaction.py's, and so is every token that is read: a
summary is a turn of its slot, in which the environment is not stepped, while
other slots play theirs. What differs is the order of a placebo, which numpy
draws on hosts and JAX here.
"""

import dataclasses
import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.rollout import keys as keys_lib
from agentrl.rollout.actor import SampledMessage
from agentrl.rollout.compaction import SUMMARY, Compaction
from agentrl.rollout.jit_context import Slots, observe
from agentrl.rollout.jit_sizes import (
  RolloutSizes,
  TokenizedEnv,
  context_tokens,
)
from agentrl.rollout.record import Record, weightless
from agentrl.text import jit_template, observation_tokens
from agentrl.types import Array, Attempts, Status


class Next(enum.IntEnum):
  """What comes next in a conversation."""

  GOES_ON = 0
  ASKS = 1  # for a summary
  BEGINS = 2  # anew


class Segments(struct.PyTreeNode):
  """Where the segmented conversations of n slots are."""

  next: Array  # [n] i32  see Next
  made: Array  # [n] i32  compactions, with one that is asked for
  first: Array  # [n, O] i32  observation
  shown: Array  # [n, S] i32  the newest summary, as it is read
  shown_len: Array  # [n] i32

  @property
  def asks(self) -> Array:
    return self.next == Next.ASKS

  @property
  def begins(self) -> Array:
    return self.next == Next.BEGINS

  @property
  def index(self) -> Array:
    """[n] i32  of the segment that the next turn is in."""
    return self.made - self.asks


def rule_of(plan: RolloutSizes) -> Compaction:
  """Returns the rule of a plan that has one."""
  assert plan.compaction is not None
  return plan.compaction


def start(obs: Array, tokens: int) -> Segments:
  """Begins conversations with first observations [n, O].

  Args:
    tokens: S, of a summary at most
  """
  zero = jnp.zeros(obs.shape[0], jnp.int32)
  shown = jnp.zeros((obs.shape[0], tokens), jnp.int32)
  return Segments(next=zero, made=zero, first=obs, shown=shown, shown_len=zero)


def fresh(slots: Slots) -> Array:
  """Returns the slots that read nothing before their context: [n] bool."""
  return (slots.turn == 0) | slots.segments.begins


def script_turn(world: TokenizedEnv, slots: Slots) -> Array:
  """Returns the turns by the count of an actor that writes no summaries."""
  return slots.turn - slots.segments.index if world.expert else slots.turn


@functools.cache
def _lengths(rule: Compaction, tasks: int) -> np.ndarray:
  """Returns the lengths of conversations, by task: [tasks] i32."""
  return np.array([rule.length(task) for task in range(tasks)], np.int32)


def _rows(table: Array, n: int) -> tuple[Array, Array]:
  """Repeats tokens [q] for n slots."""
  length = jnp.full(n, table.shape[0], jnp.int32)
  return jnp.broadcast_to(table, (n, table.shape[0])), length


def _resized(tokens: Array, size: int) -> Array:
  """Pads or cuts tokens [n, L], of which no more are used: [n, size]."""
  more = max(0, size - tokens.shape[1])
  return jnp.pad(tokens, ((0, 0), (0, more)))[:, :size]


def join_context(
  world: TokenizedEnv, plan: RolloutSizes, slots: Slots, obs, obs_len, notes
) -> tuple[Array, Array]:
  """Joins the tokens that are new to the model: [n, C] i32, [n] i32.

    goes on    between, observation          (at the beginning: opening, notes)
    asks       between, request
    begins     opening, notes, head, summary, between, observation

  The head is the first observation or, where summaries must carry it, the
  request. Without summaries it is in one message with the observation.
  """
  rule, now, n = rule_of(plan), slots.segments, slots.turn.shape[0]
  anew = fresh(slots)

  def only(where, part):
    return part[0], jnp.where(where, part[1], 0)

  see = jax.vmap(lambda o: observe(world, o))
  heard = only(~now.asks, (obs, obs_len))
  parts = [heard]
  if rule.writes:
    assert world.request is not None
    request = _rows(world.request, n)
    parts = [only(now.asks, request), heard]
    if world.frame:
      end = jax.vmap(jit_template.ended, (None, 0))
      between = end(world.frame, slots.last)
      parts = [only(now.begins, between), *parts]
    parts = [only(now.begins, (now.shown, now.shown_len)), *parts]
    head = see(now.first) if rule.keep_task else request
    parts = [only(now.begins, head), *parts]
  elif rule.keep_task:
    kept = jnp.where(now.begins[:, None], now.first, -1)
    parts = [see(jnp.concatenate([kept, slots.obs], axis=1))]
  if plan.notes:
    parts = [only(anew, notes), *parts]
  if world.frame:
    opening = jax.vmap(jit_template.opening, (None, 0, 0))
    parts = [opening(world.frame, jnp.where(anew, 0, 1), slots.last), *parts]
  tokens, length = jax.vmap(observation_tokens.concat)(parts)
  return _resized(tokens, context_tokens(world, plan)), length


def hash_states(world: TokenizedEnv, slots: Slots, at: Array, states: Array):
  """Returns the state ids of turns; summaries behind one state are of one.

  Args:
    at: [n] i32  trajectories
    states: [n] i32  of what is observed
  """
  if world.request is None:
    return states
  before = slots.record.state[at, jnp.maximum(slots.turn - 1, 0)]  # [n]
  parts = [(before[:, None], jnp.ones_like(before))]
  parts.append(_rows(world.request, before.shape[0]))
  tokens, length = jax.vmap(observation_tokens.concat)(parts)
  asked = jax.vmap(observation_tokens.content_hash)(tokens, length)
  return jnp.where(slots.segments.asks, asked, states)


def tokens_at_most(plan: RolloutSizes, slots: Slots) -> Array:
  """Returns the most tokens of each slot's message: [n] i32."""
  most = rule_of(plan).tokens
  return jnp.where(slots.segments.asks, most, plan.message)


def demonstrate(
  world: TokenizedEnv, slots: Slots, message: SampledMessage
) -> SampledMessage:
  """Writes the summaries that are asked for as the world's expert would."""
  none = jnp.zeros(0, jnp.int32)
  bare = dataclasses.replace(world.pieces, prefix=none, suffix=none)

  def written(state):
    text = observation_tokens.render(bare, world.expert(state))
    eot = jnp.array([world.actions.eot]), jnp.int32(1)
    return observation_tokens.concat([text, eot])

  tokens, length = jax.vmap(written)(slots.state)
  tokens = _resized(tokens, message.tokens.shape[1])
  asks = slots.segments.asks
  return SampledMessage(
    tokens=jnp.where(asks[:, None], tokens, message.tokens),
    length=jnp.where(asks, length, message.length),
    logp=jnp.where(asks[:, None], 0.0, message.logp),
    entropy=jnp.where(asks, 0.0, message.entropy),
  )


def shuffle(tokens: Array, length: Array, key: Array, eot: int) -> Array:
  """Puts the tokens of a summary into another order: [S] i32.

  It differs wherever two tokens do; an end of turn stays where it is.

  Args:
    tokens: [S] i32
    length: [] i32  of the summary
    key: of its message
  """
  s = tokens.shape[0]
  last = tokens[jnp.maximum(length - 1, 0)]
  size = length - ((length > 0) & (last == eot)).astype(length.dtype)
  inside = jnp.arange(s) < size
  one = jnp.all(jnp.where(inside, tokens == tokens[0], True))
  key = jax.random.fold_in(key, keys_lib.COMPACTION)

  def draw(carry):
    i, _ = carry
    u = jax.random.uniform(jax.random.fold_in(key, i), (s,))
    order = jnp.argsort(jnp.where(inside, u, 2.0 + jnp.arange(s)))
    return i + 1, tokens[order]

  def same(carry):
    return ~one & jnp.all(carry[1] == tokens)

  return jax.lax.while_loop(same, draw, (jnp.int32(0), tokens))[1]


def show(
  world: TokenizedEnv,
  rule: Compaction,
  slots: Slots,
  message: SampledMessage,
  message_keys: Array,
) -> Segments:
  """Keeps the summaries that were written, as the policy goes on from them."""
  now = slots.segments
  said = message.tokens[:, : rule.tokens]
  if rule.arm == 'shuffled':
    reorder = jax.vmap(shuffle, (0, 0, 0, None))
    length = jnp.minimum(message.length, rule.tokens)
    said = reorder(said, length, message_keys, world.actions.eot)
  return now.replace(
    shown=jnp.where(now.asks[:, None], said, now.shown),
    shown_len=jnp.where(now.asks, message.length, now.shown_len),
  )


def settle(
  world: TokenizedEnv,
  plan: RolloutSizes,
  attempts: Attempts,
  slots: Slots,
  now: Segments,
  *,
  done: Array,
  score: Array,
  at: Array,
) -> tuple[Array, Array, Segments]:
  """Decides how each slot goes on: -> status if it ends, ends, its segments.

  A summary is asked for where an observation and a message do not fit behind
  the conversation, if a turn is left for what it is written for.

  Args:
    slots: behind the turn, with the next observation
    now: their segments in that turn, `made` not yet counted on
    done, score: of the environment
    at: [n] i32  trajectories
  """
  rule = rule_of(plan)
  room = _lengths(rule, jax.tree.leaves(world.tasks)[0].shape[0])
  heard = jax.vmap(lambda o: observe(world, o)[1])(slots.obs)
  if world.frame:
    heard += jax.vmap(jit_template.ended, (None, 0))(world.frame, slots.last)[1]
  size = slots.filled + 1 + heard + plan.message
  fits = size <= jnp.asarray(room)[attempts.task[at]]
  able = now.made < rule.most
  made = now.made + (~fits & able & ~now.asks)

  def limit(made):
    # Demonstrated summaries come on top.
    own = attempts.limit[at] + (made if world.expert else 0)
    return jnp.minimum(own, plan.turns)

  late = slots.turn >= limit(now.made)
  cut = jnp.where(late, limit(now.made), limit(made)) < plan.turns
  if rule.writes:
    late |= ~fits & able & (slots.turn + 2 > limit(made))
  over = ~now.asks & (done | late | (~fits & ~able))
  status = jnp.where(
    done,
    jnp.where(score > 0, Status.SOLVED, Status.FAILED),
    jnp.where(
      late,
      jnp.where(cut, Status.SCHEDULE, Status.TURN_LIMIT),
      Status.TOKEN_LIMIT,
    ),
  )
  anew = Next.ASKS if rule.writes else Next.BEGINS
  then = jnp.where(fits, Next.GOES_ON, anew)
  then = jnp.where(now.asks, Next.BEGINS, then).astype(jnp.int32)
  return status.astype(jnp.int32), over, now.replace(next=then, made=made)


def weigh(rule: Compaction, record: Record) -> Record:
  """Takes the weight of the messages that the arm does not train."""
  return weightless(record, rule.weightless) if rule.weightless else record


def columns(rule: Compaction | None, own: tuple[str, ...]) -> tuple[str, ...]:
  """Returns the names of a record's info values."""
  return own if rule is None else (*own, SUMMARY)
