"""Actors inside jit: prefill the new context of a turn, then sample a message.

An Actor's KV cache has one row per slot. `model` samples from the policy;
`scripted` replays given messages.
"""

import dataclasses
import math
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import control_flow, decode, transformer
from agentrl.rollout import distinct_prompts, sampling
from agentrl.types import Array, PyTree

# Tokens of a prompt from which on families hold it once (docs/PERFORMANCE.md):
# below, they gain too little for the second loop that is compiled.
HELD_ONCE = 256
CHUNK = 128  # tokens of a context that are read again at a time


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
  begun: Array | None = None  # [n] i32  its first tokens do so; None: 0
  move: Array | None = None  # [n] i32  action to be named; None: its own
  # [n] i32  tokens of the message at most; None: as many as it has room for
  most: Array | None = None


class ForcedPrefix(NamedTuple):
  """Messages that replace what is sampled where a prompt says so."""

  tokens: Array  # [B, K, M] i32
  logp: Array  # [B, K, M] f32  of when they were sampled
  version: Array  # [B, K, M] i32  of the policy that sampled them
  entropy: Array  # [B, K] f32  summed over the message, nats
  length: Array  # [B, K] i32


class Actor(Protocol):
  """What writes the messages of a rollout inside jit."""

  def cache(self, n: int, capacity: int) -> Any:
    """Returns an empty cache of n slots."""

  def say(self, cache: Any, prompt: Prompt) -> tuple[SampledMessage, Any]:
    """Returns a message of every slot, and the cache that has read it."""

  def read(self, cache: Any, tokens: Array, length: Array) -> Any:
    """Returns the cache whose slots of any length begin with their tokens.

    Args:
      tokens: [n, T] i32
      length: [n] i32; 0: the slot stays as it is
    """


@dataclasses.dataclass(frozen=True, eq=False)
class ModelActor:
  """The policy, with parameters prepared for decoding; see `model`."""

  shape: transformer.DecoderConfig
  params: PyTree
  message: int
  eot: int
  top_k: int
  top_p: float
  given: ForcedPrefix | None
  group: int

  def cache(self, n: int, capacity: int):
    return decode.empty(self.shape, n, capacity)

  def say(self, cache, prompt: Prompt):
    n, c = prompt.tokens.shape
    size = math.gcd(n, self.group)
    afresh = prompt.start is None and not mesh.active()
    if size == 1 or c < HELD_ONCE or not afresh:
      return self._say_apart(cache, prompt)
    families = distinct_prompts.families(
      prompt.tokens, prompt.length, prompt.idle, size
    )
    # A turn that starts afresh needs nothing of the last one's caches, so they
    # are made where they are used. Both ways have room reserved all the same:
    # a program's memory is that of the larger, a whole cache for every slot.
    reply = jax.lax.cond(
      control_flow.lane_all(families.found),
      lambda: self._say_together(families, prompt),
      lambda: self._say_apart(jax.tree.map(jnp.zeros_like, cache), prompt)[0],
    )
    return reply, cache

  def read(self, cache, tokens, length):
    width = min(CHUNK, tokens.shape[1])
    rounds = -(-tokens.shape[1] // width)
    tokens = jnp.pad(tokens, ((0, 0), (0, rounds * width - tokens.shape[1])))

    def chunk(i, cache):
      part = jax.lax.dynamic_slice_in_dim(tokens, i * width, width, axis=1)
      # What falls outside of the cache is dropped, and so of other slots.
      start = jnp.where(length > i * width, i * width, rounds * width + 1)
      last = jnp.zeros_like(start)
      return self._read(cache, part, last, start)[1]

    need = control_flow.lane_max(jnp.max(length))
    return jax.lax.fori_loop(0, -(-need // width), chunk, cache)

  def _say_apart(self, cache, prompt: Prompt):
    """Lets every slot hold its prompt and its message in its cache."""
    hidden, cache = self._prefill(cache, prompt)
    after = prompt.length
    if prompt.start is not None:
      after += prompt.start
    return self._sample(cache, prompt, hidden, after)

  def _say_together(self, families: distinct_prompts.Families, prompt: Prompt):
    """Lets families hold their prompt, and every slot its message alone."""
    count, n = families.prompt.shape[0], families.order.shape[0]
    tokens = prompt.tokens[families.prompt]
    length = prompt.length[families.prompt]
    blank = decode.empty(self.shape, count, tokens.shape[1])
    hidden, held = distinct_prompts.read(self._read, blank, tokens, length)
    reply, _ = self._sample(
      cache=decode.empty(self.shape, n, self.message),
      prompt=jax.tree.map(lambda x: x[families.order], prompt),
      hidden=jnp.repeat(hidden, n // count, axis=0),
      after=jnp.zeros(n, jnp.int32),
      prefix=decode.SharedPrefix(held, length),
    )
    back = jnp.argsort(families.order)
    return jax.tree.map(lambda x: x[back], reply)

  def _prefill(self, cache, prompt: Prompt):
    """Reads the new context of every slot; equal fresh ones once."""

    def each(cache, tokens, length):
      last = jnp.maximum(length - 1, 0)
      return self._read(cache, tokens, last, prompt.start)

    def distinct(cache, tokens, length):
      blank = decode.empty(self.shape, *tokens.shape)
      hidden, own = distinct_prompts.read(self._read, blank, tokens, length)
      return hidden, decode.begin(cache, own)

    tokens, length = prompt.tokens, prompt.length
    if mesh.active():  # slots are other devices' too
      return each(cache, tokens, length)
    if prompt.start is None:
      return distinct(cache, tokens, length)
    afresh = control_flow.lane_all(jnp.all(prompt.start == 0))
    hidden = jnp.zeros((len(tokens), 1, self.shape.width), self.shape.dtype)
    out = hidden, cache
    for chosen, way in ((afresh, distinct), (~afresh, each)):
      out = control_flow.apply_if(
        chosen,
        lambda out, tokens, length, way=way: way(out[1], tokens, length),
        out,
        tokens,
        length,
      )
    return out

  def _sample(self, cache, prompt: Prompt, hidden, after, prefix=None):
    """Samples messages of slots that have read; after: cache positions."""

    def more(carry):
      t, _, _, done = carry
      return (t < self.message) & ~jnp.all(done)

    def step(carry):
      t, cache, reply, done = carry
      token = jax.lax.dynamic_slice_in_dim(reply.tokens, t - 1, 1, axis=1)
      hidden, cache = decode.forward_with_cache(
        self.shape, self.params, cache, token, after + t - 1, prefix=prefix
      )
      reply, done = self._write(prompt, t, hidden[:, 0], reply, done)
      return t + 1, cache, reply, done

    reply = silence(after.shape[0], self.message)
    reply, done = self._write(prompt, 0, hidden[:, 0], reply, prompt.idle)
    carry = (jnp.int32(1), cache, reply, done)
    _, cache, reply, _ = jax.lax.while_loop(more, step, carry)
    return reply, cache

  def _write(self, prompt: Prompt, t, hidden_ND, reply: SampledMessage, done):
    """Adds token t of every message: -> reply, done [n]."""
    keys = jax.vmap(jax.random.fold_in)(prompt.keys, jnp.full(len(done), t))
    token, logp, entropy = sampling.draw(
      self._next_logits(hidden_ND),
      keys,
      prompt.temperature,
      self.top_k,
      self.top_p,
    )
    last: Array | bool = False
    given, use = self.given, prompt.given
    # Its message takes the place of the drawn one.
    if given is not None and use is not None:
      b, k, _ = given.tokens.shape
      at = jnp.minimum(prompt.traj, b - 1), jnp.minimum(prompt.turn, k - 1)
      here = use if prompt.begun is None else use | (t < prompt.begun)
      token = jnp.where(here, given.tokens[*at, t], token)
      logp = jnp.where(here, given.logp[*at, t], logp)
      last = use & (t + 1 >= given.length[at])
    if prompt.most is not None:
      last |= t + 1 >= prompt.most
    reply = SampledMessage(
      tokens=reply.tokens.at[:, t].set(jnp.where(done, 0, token)),
      length=reply.length + ~done,
      logp=reply.logp.at[:, t].set(jnp.where(done, 0.0, logp)),
      entropy=reply.entropy + jnp.where(done, 0.0, entropy),
    )
    return reply, done | (token == self.eot) | last

  def _read(self, cache, tokens, last, start=None):
    return decode.forward_with_cache(
      self.shape, self.params, cache, tokens, start, last
    )

  def _next_logits(self, hidden_ND):
    hidden_N1D = hidden_ND[:, None]
    cap = self.shape.logit_cap
    return transformer.logits(self.params, hidden_N1D, cap)[:, 0]


def model(
  shape: transformer.DecoderConfig,
  params: PyTree,
  *,
  message: int,
  eot: int,
  top_k: int = 0,
  top_p: float = 1.0,
  given: ForcedPrefix | None = None,
  group: int = 1,
) -> ModelActor:
  """Makes an actor of the policy.

  Args:
    message: tokens at most, ended by eot
    given: where a prompt says so, its tokens take the place of those drawn
    group: where so many slots each have one prompt and start afresh, its keys
      and values are held once for them, and read once for each token; what
      they sample is the same
  """
  prepared = decode.prepare_decode_params(shape, params)
  return ModelActor(
    shape=shape,
    params=prepared,
    message=message,
    eot=eot,
    top_k=top_k,
    top_p=top_p,
    given=given,
    group=group,
  )


@dataclasses.dataclass(frozen=True, eq=False)
class ScriptedActor:
  """Given messages, for demonstrations and repeated prefixes."""

  tokens: Array  # [B, K, M] i32
  length: Array  # [B, K] i32
  logp: Array | None = None  # [B, K, M] f32; None: 0
  entropy: Array | None = None  # [B, K] f32; None: 0

  def cache(self, n: int, capacity: int):
    del n, capacity
    return ()

  def read(self, cache, tokens, length):
    del tokens, length
    return cache

  def say(self, cache, prompt: Prompt):
    b, k, m = self.tokens.shape
    at = jnp.minimum(prompt.traj, b - 1), jnp.minimum(prompt.turn, k - 1)
    silent = silence(prompt.length.shape[0], m)
    length = jnp.where(prompt.idle, 0, self.length[at])
    said = silent._replace(tokens=self.tokens[at], length=length)
    if self.logp is not None and self.entropy is not None:
      said = said._replace(logp=self.logp[at], entropy=self.entropy[at])
    return said, cache


def scripted(
  tokens_BKM: Array,
  length_BK: Array,
  logp_BKM: Array | None = None,
  entropy_BK: Array | None = None,
) -> ScriptedActor:
  """Makes an actor that replays given messages, as they were sampled if so."""
  return ScriptedActor(tokens_BKM, length_BK, logp_BKM, entropy_BK)


@dataclasses.dataclass(frozen=True, eq=False)
class MoveActor:
  """Names the moves that prompts say: of players that need no model."""

  tokens: Array  # [A, M] i32  message of each action, with its end of turn
  length: Array  # [A] i32

  def cache(self, n: int, capacity: int):
    del n, capacity
    return ()

  def read(self, cache, tokens, length):
    del tokens, length
    return cache

  def say(self, cache, prompt: Prompt):
    silent = silence(prompt.length.shape[0], self.tokens.shape[1])
    length = jnp.where(prompt.idle, 0, self.length[prompt.move])
    return silent._replace(
      tokens=self.tokens[prompt.move], length=length
    ), cache


def silence(n: int, m: int) -> SampledMessage:
  """Returns n messages of no tokens, with room for m."""
  return SampledMessage(
    tokens=jnp.zeros((n, m), jnp.int32),
    length=jnp.zeros(n, jnp.int32),
    logp=jnp.zeros((n, m)),
    entropy=jnp.zeros(n),
  )
