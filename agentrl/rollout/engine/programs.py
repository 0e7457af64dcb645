"""Continuous batching on the device: n slots, each with what it has read.

Three compiled programs hand the cache on and keep its shape:

  read    some slots read a chunk of tokens
  write   every slot that speaks reads its last token and writes the next, up
          to `burst` times
  copy    slots take over what other slots have read

A slot's true length is the host's business (rollout/engine/engine.py): what
stands behind it may be anything, for it is overwritten before anybody looks
there.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import decode, transformer
from agentrl.rollout import sampling
from agentrl.types import Array

HELD = 'batch', 'kv_heads'  # axes of all arrays of a cache; two more are whole


class Writing(NamedTuple):
  """What each of n slots is about to write."""

  live: Array  # [n] bool  it speaks
  last: Array  # [n] i32  token that is known but not yet read
  filled: Array  # [n] i32  tokens read; `last` goes there
  said: Array  # [n] i32  tokens of its message so far
  budget: Array  # [n] i32  tokens of its message at most
  key: Array  # [n, 2] u32  of its message: token t is drawn by fold_in(key, t)
  temperature: Array  # [n] f32
  top_k: Array  # [n] i32
  top_p: Array  # [n] f32


class Written(NamedTuple):
  """Up to D tokens of each slot."""

  count: Array  # [n] i32
  tokens: Array  # [n, D] i32
  logp: Array  # [n, D] f32  of the distribution sampled from, nats
  entropy: Array  # [n, D] f32  of that distribution, nats


class Programs(NamedTuple):
  """All of them jitted; `cache` is donated.

  prepare: params -> what the others take for params
  empty: () -> cache
  read: (params, cache, slot [p], tokens [p, C], start [p]) -> cache; slot n:
    nobody. p = n: every slot reads, in order
  write: (params, cache, Writing) -> cache, Written
  copy: (cache, source [f], target [f]) -> cache; target n: nobody
  """

  prepare: Callable
  empty: Callable
  read: Callable
  write: Callable
  copy: Callable


@functools.lru_cache(maxsize=8)
def programs(
  shape: transformer.Shape, n: int, capacity: int, eot: int, burst: int
) -> Programs:
  """For n slots of `capacity` positions each."""

  def empty():
    return _laid(decode.empty(shape, n, capacity))

  def read(params, cache, slot, tokens, start):
    return _laid(_read(shape, n, params, cache, slot, tokens, start))

  def write(params, cache, w: Writing):
    cache, out = _write(shape, eot, burst, params, cache, w)
    return _laid(cache), out

  def copy(cache, source, target):
    return _laid(_copy(cache, source, target))

  return Programs(
    prepare=jax.jit(lambda params: decode.unstack(shape, params)),
    empty=jax.jit(mesh.auto(empty, HELD)),
    read=jax.jit(mesh.auto(read, HELD), donate_argnums=1),
    write=jax.jit(mesh.auto(write, HELD, None), donate_argnums=1),
    copy=jax.jit(mesh.auto(copy, HELD), donate_argnums=0),
  )


def _laid(cache):
  """On a mesh, each device with its slots and its heads alone."""
  return jax.tree.map(lambda x: mesh.place(x, *HELD), cache)


def _read(shape, n: int, params, cache, slot, tokens_PC, start_P):
  """Nobody asks what follows: the top layer makes keys and values alone."""
  look = jnp.zeros_like(start_P)
  if slot.shape[0] == n:
    return decode.extend(shape, params, cache, tokens_PC, start_P, look)[1]
  rows = jax.tree.map(lambda x: x[slot], cache)
  _, rows = decode.extend(shape, params, rows, tokens_PC, start_P, look)
  return jax.tree.map(
    lambda old, new: old.at[slot].set(new, mode='drop'), cache, rows
  )


def _copy(cache, source_F, target_F):
  return jax.tree.map(
    lambda x: x.at[target_F].set(x[source_F], mode='drop'), cache
  )


def _write(shape, eot: int, burst: int, params, cache, w: Writing):
  n = w.last.shape[0]
  keys = jax.random.wrap_key_data(w.key)
  nothing = Written(
    count=jnp.zeros(n, jnp.int32),
    tokens=jnp.zeros((n, burst), jnp.int32),
    logp=jnp.zeros((n, burst)),
    entropy=jnp.zeros((n, burst)),
  )

  def more(carry):
    t, _, _, live, _ = carry
    return (t < burst) & jnp.any(live)

  def step(carry):
    t, cache, last, live, out = carry
    hidden, cache = decode.extend(
      shape, params, cache, last[:, None], w.filled + t
    )
    logits = transformer.logits(params, hidden, shape.logit_cap)[:, 0]
    token, logp, entropy = sampling.draw(
      logits,
      jax.vmap(jax.random.fold_in)(keys, w.said + t),
      w.temperature,
      w.top_k,
      w.top_p,
    )
    out = Written(
      count=out.count + live,
      tokens=out.tokens.at[:, t].set(jnp.where(live, token, 0)),
      logp=out.logp.at[:, t].set(jnp.where(live, logp, 0.0)),
      entropy=out.entropy.at[:, t].set(jnp.where(live, entropy, 0.0)),
    )
    live &= (token != eot) & (w.said + t + 1 < w.budget)
    return t + 1, cache, token, live, out

  carry = (jnp.int32(0), cache, w.last, w.live, nothing)
  _, cache, _, _, out = jax.lax.while_loop(more, step, carry)
  return cache, out
