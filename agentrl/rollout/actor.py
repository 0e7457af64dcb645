"""How a turn's message comes about: read the new context, then write.

A Speaker keeps what it has read in a cache of one row per slot. `model` is
the policy; `script` says what was written down beforehand.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.nn import decode, transformer
from agentrl.rollout import sampling
from agentrl.types import Array


class Said(NamedTuple):
  """A message of M tokens at most, for each of n slots."""

  tokens: Array  # [n, M] i32
  length: Array  # [n] i32
  logp: Array  # [n, M] f32
  entropy: Array  # [n] f32  summed over the message


class Heard(NamedTuple):
  """What a slot reads before it speaks."""

  tokens: Array  # [n, C] i32
  length: Array  # [n] i32
  start: Array | None  # [n] i32  position of the first; None: 0, afresh
  keys: Array  # [n] typed keys of this turn
  temperature: Array  # [n] f32
  idle: Array  # [n] bool  nobody speaks here
  traj: Array  # [n] i32
  turn: Array  # [n] i32


class Given(NamedTuple):
  """What trajectories say in their first turns, whatever is drawn."""

  turns: Array  # [B] i32  how many
  tokens: Array  # [B, K, M] i32
  logp: Array  # [B, K, M] f32  of when they were sampled
  version: Array  # [B, K, M] i32  of the policy that sampled them
  entropy: Array  # [B, K] f32  summed over the message, nats
  length: Array  # [B, K] i32


class Speaker(NamedTuple):
  """cache(n, capacity) -> cache; say(cache, Heard) -> Said, cache."""

  cache: Callable[[int, int], Any]
  say: Callable[[Any, Heard], tuple[Said, Any]]


def model(
  shape: transformer.Shape,
  params,
  *,
  message: int,
  eot: int,
  top_k: int = 0,
  top_p: float = 1.0,
  given: Given | None = None,
) -> Speaker:
  """The policy: at most `message` sampled tokens, ended by eot.

  Where turns are given, their tokens take the place of those drawn.
  """
  params = decode.unstack(shape, params)

  def next_logits(hidden_ND):
    return transformer.logits(params, hidden_ND[:, None], shape.logit_cap)[:, 0]

  def say(cache, heard: Heard):
    n = heard.length.shape[0]
    last = jnp.maximum(heard.length - 1, 0)
    hidden, cache = decode.extend(
      shape, params, cache, heard.tokens, heard.start, last
    )
    hidden = hidden[:, 0]
    start = jnp.zeros_like(heard.length) if heard.start is None else heard.start
    after = start + heard.length

    def write(t, logits, said: Said, done):
      keys = jax.vmap(jax.random.fold_in)(heard.keys, jnp.full(n, t))
      token, logp, entropy = sampling.draw(
        logits, keys, heard.temperature, top_k, top_p
      )
      if given is not None:
        token, logp = _instead(given, heard, t, token, logp)
      said = Said(
        tokens=said.tokens.at[:, t].set(jnp.where(done, 0, token)),
        length=said.length + ~done,
        logp=said.logp.at[:, t].set(jnp.where(done, 0.0, logp)),
        entropy=said.entropy + jnp.where(done, 0.0, entropy),
      )
      return said, done | (token == eot)

    def more(carry):
      t, _, _, done = carry
      return (t < message) & ~jnp.all(done)

    def step(carry):
      t, cache, said, done = carry
      token = jax.lax.dynamic_slice_in_dim(said.tokens, t - 1, 1, axis=1)
      hidden, cache = decode.extend(shape, params, cache, token, after + t - 1)
      said, done = write(t, next_logits(hidden[:, 0]), said, done)
      return t + 1, cache, said, done

    said, done = write(0, next_logits(hidden), _nothing(n, message), heard.idle)
    carry = (jnp.int32(1), cache, said, done)
    _, cache, said, _ = jax.lax.while_loop(more, step, carry)
    return said, cache

  return Speaker(
    cache=lambda n, size: decode.empty(shape, n, size),
    say=say,
  )


def _instead(given: Given, heard: Heard, t, token, logp):
  """Token t of the message and its log-prob, the given one where there is."""
  b, k, _ = given.tokens.shape
  at = jnp.minimum(heard.traj, b - 1), jnp.minimum(heard.turn, k - 1)
  use = heard.turn < given.turns[at[0]]
  token = jnp.where(use, given.tokens[*at, t], token)
  return token, jnp.where(use, given.logp[*at, t], logp)


def script(tokens_BKM, length_BK) -> Speaker:
  """Messages written down beforehand, for demonstrations and replays."""

  def say(cache, heard: Heard):
    b, k, m = tokens_BKM.shape
    at = jnp.minimum(heard.traj, b - 1), jnp.minimum(heard.turn, k - 1)
    silent = _nothing(heard.length.shape[0], m)
    length = jnp.where(heard.idle, 0, length_BK[at])
    return silent._replace(tokens=tokens_BKM[at], length=length), cache

  return Speaker(cache=lambda n, size: (), say=say)


def _nothing(n: int, m: int) -> Said:
  return Said(
    tokens=jnp.zeros((n, m), jnp.int32),
    length=jnp.zeros(n, jnp.int32),
    logp=jnp.zeros((n, m)),
    entropy=jnp.zeros(n),
  )
