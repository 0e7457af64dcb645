"""Actors inside jit: prefill the new context of a turn, then sample a message.

An Actor's KV cache has one row per slot. `model` samples from the policy;
`scripted` replays given messages.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import control_flow, decode, transformer
from agentrl.rollout import distinct_prompts, sampling
from agentrl.types import Array

# Tokens of a prompt from which on families hold it once (docs/PERFORMANCE.md):
# below, they gain too little for the second loop that is compiled.
HELD_ONCE = 256


class SampledMessage(NamedTuple):
  """A message of M tokens at most, for each of n slots."""

  tokens: Array  # [n, M] i32
  length: Array  # [n] i32
  logp: Array  # [n, M] f32
  entropy: Array  # [n] f32  summed over the message


class Prompt(NamedTuple):
  """New context of n slots, and the keys to sample their messages with."""

  tokens: Array  # [n, C] i32
  length: Array  # [n] i32
  start: Array | None  # [n] i32  position of the first; None: 0, an empty cache
  keys: Array  # [n] typed keys of this turn
  temperature: Array  # [n] f32
  idle: Array  # [n] bool  no trajectory in this slot
  traj: Array  # [n] i32
  turn: Array  # [n] i32
  given: Array | None = None  # [n] bool  it repeats a prefix; None: nobody does


class ForcedPrefix(NamedTuple):
  """Messages that replace what is sampled where a prompt says so."""

  tokens: Array  # [B, K, M] i32
  logp: Array  # [B, K, M] f32  of when they were sampled
  version: Array  # [B, K, M] i32  of the policy that sampled them
  entropy: Array  # [B, K] f32  summed over the message, nats
  length: Array  # [B, K] i32


class Actor(NamedTuple):
  """cache(n, capacity) -> cache; say(cache, prompt) -> message, cache."""

  cache: Callable[[int, int], Any]
  say: Callable[[Any, Prompt], tuple[SampledMessage, Any]]


def model(
  shape: transformer.DecoderConfig,
  params,
  *,
  message: int,
  eot: int,
  top_k: int = 0,
  top_p: float = 1.0,
  given: ForcedPrefix | None = None,
  group: int = 1,
) -> Actor:
  """The policy: at most `message` sampled tokens, ended by eot.

  Where turns are given, their tokens take the place of those drawn. Where
  `group` slots each have one prompt and start afresh, its keys and values are
  held once for them, and read once for each token; what they sample is the
  same.
  """
  params = decode.prepare_decode_params(shape, params)

  def next_logits(hidden_ND):
    return transformer.logits(params, hidden_ND[:, None], shape.logit_cap)[:, 0]

  def read(cache, tokens, last, start=None):
    args = cache, tokens, start, last
    return decode.forward_with_cache(shape, params, *args)

  def prefill(cache, prompt: Prompt):
    """The new context of every slot; equal ones that start afresh once."""

    def each(cache, tokens, length):
      last = jnp.maximum(length - 1, 0)
      return read(cache, tokens, last, prompt.start)

    def distinct(cache, tokens, length):
      blank = decode.empty(shape, *tokens.shape)
      hidden, own = distinct_prompts.read(read, blank, tokens, length)
      return hidden, decode.begin(cache, own)

    new = prompt.tokens, prompt.length
    if mesh.active():  # slots are other devices' too
      return each(cache, *new)
    if prompt.start is None:
      return distinct(cache, *new)
    afresh = control_flow.lane_all(jnp.all(prompt.start == 0))
    out = jnp.zeros((new[0].shape[0], 1, shape.width), shape.dtype), cache
    for chosen, way in ((afresh, distinct), (~afresh, each)):
      out = control_flow.apply_if(
        chosen, lambda out, *new, way=way: way(out[1], *new), out, *new
      )
    return out

  def sample(cache, prompt: Prompt, hidden, after, prefix=None):
    """Messages of slots that have read; after: positions in their cache."""
    n = after.shape[0]

    def write(t, logits, reply: SampledMessage, done):
      keys = jax.vmap(jax.random.fold_in)(prompt.keys, jnp.full(n, t))
      token, logp, entropy = sampling.draw(
        logits, keys, prompt.temperature, top_k, top_p
      )
      last = False
      use = prompt.given
      # Its message takes the place of the drawn one.
      if given is not None and use is not None:
        b, k, _ = given.tokens.shape
        at = jnp.minimum(prompt.traj, b - 1), jnp.minimum(prompt.turn, k - 1)
        token = jnp.where(use, given.tokens[*at, t], token)
        logp = jnp.where(use, given.logp[*at, t], logp)
        last = use & (t + 1 >= given.length[at])
      reply = SampledMessage(
        tokens=reply.tokens.at[:, t].set(jnp.where(done, 0, token)),
        length=reply.length + ~done,
        logp=reply.logp.at[:, t].set(jnp.where(done, 0.0, logp)),
        entropy=reply.entropy + jnp.where(done, 0.0, entropy),
      )
      return reply, done | (token == eot) | last

    def more(carry):
      t, _, _, done = carry
      return (t < message) & ~jnp.all(done)

    def step(carry):
      t, cache, reply, done = carry
      token = jax.lax.dynamic_slice_in_dim(reply.tokens, t - 1, 1, axis=1)
      hidden, cache = decode.forward_with_cache(
        shape, params, cache, token, after + t - 1, prefix=prefix
      )
      reply, done = write(t, next_logits(hidden[:, 0]), reply, done)
      return t + 1, cache, reply, done

    reply, done = write(
      0, next_logits(hidden[:, 0]), _nothing(n, message), prompt.idle
    )
    carry = (jnp.int32(1), cache, reply, done)
    _, cache, reply, _ = jax.lax.while_loop(more, step, carry)
    return reply, cache

  def say_apart(cache, prompt: Prompt):
    """Every slot holds its prompt and its message in its cache."""
    hidden, cache = prefill(cache, prompt)
    after = prompt.length
    if prompt.start is not None:
      after += prompt.start
    return sample(cache, prompt, hidden, after)

  def say_together(families: distinct_prompts.Families, prompt: Prompt):
    """Families hold their prompt, and every slot its message alone."""
    count, n = families.prompt.shape[0], families.order.shape[0]
    tokens, length = (
      x[families.prompt] for x in (prompt.tokens, prompt.length)
    )
    blank = decode.empty(shape, count, tokens.shape[1])
    hidden, held = distinct_prompts.read(read, blank, tokens, length)
    hidden = jnp.repeat(hidden, n // count, axis=0)
    own = decode.empty(shape, n, message)
    reply, _ = sample(
      own,
      jax.tree.map(lambda x: x[families.order], prompt),
      hidden,
      jnp.zeros(n, jnp.int32),
      decode.SharedPrefix(held, length),
    )
    back = jnp.argsort(families.order)
    return jax.tree.map(lambda x: x[back], reply)

  def say(cache, prompt: Prompt):
    n, c = prompt.tokens.shape
    size = math.gcd(n, group)
    afresh = prompt.start is None and not mesh.active()
    if size == 1 or c < HELD_ONCE or not afresh:
      return say_apart(cache, prompt)
    families = distinct_prompts.families(
      prompt.tokens, prompt.length, prompt.idle, size
    )
    # A turn that starts afresh needs nothing of the last one's caches, so they
    # are made where they are used. Both ways have room reserved all the same:
    # a program's memory is that of the larger, a whole cache for every slot.
    reply = jax.lax.cond(
      control_flow.lane_all(families.found),
      lambda: say_together(families, prompt),
      lambda: say_apart(jax.tree.map(jnp.zeros_like, cache), prompt)[0],
    )
    return reply, cache

  return Actor(cache=lambda n, size: decode.empty(shape, n, size), say=say)


def scripted(tokens_BKM, length_BK) -> Actor:
  """Replays given messages, for demonstrations and repeated prefixes."""

  def say(cache, prompt: Prompt):
    b, k, m = tokens_BKM.shape
    at = jnp.minimum(prompt.traj, b - 1), jnp.minimum(prompt.turn, k - 1)
    silent = _nothing(prompt.length.shape[0], m)
    length = jnp.where(prompt.idle, 0, length_BK[at])
    return silent._replace(tokens=tokens_BKM[at], length=length), cache

  return Actor(cache=lambda n, size: (), say=say)


def _nothing(n: int, m: int) -> SampledMessage:
  return SampledMessage(
    tokens=jnp.zeros((n, m), jnp.int32),
    length=jnp.zeros(n, jnp.int32),
    logp=jnp.zeros((n, m)),
    entropy=jnp.zeros(n),
  )
