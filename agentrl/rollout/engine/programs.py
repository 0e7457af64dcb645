"""Compiled programs of the engine, over a KV cache of n slots.

  read    prefills a chunk of tokens in some slots
  write   decodes up to `burst` tokens in every live slot
  copy    copies the cache of slots to other slots

The host tracks the true length of each slot (rollout/engine/engine.py); what
lies past it may be anything, since it is overwritten before it is attended to.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import decode, lora, transformer
from agentrl.rollout import sampling
from agentrl.types import Array

HELD = 'batch', 'kv_heads'  # axes of all arrays of a cache; two more are whole


SlotArray = Any  # on the host; an Array where it is traced


class DecodeInputs(NamedTuple):
  """State of n slots before a burst."""

  live: SlotArray  # [n] bool  it decodes
  last: SlotArray  # [n] i32  token not yet in the cache
  filled: SlotArray  # [n] i32  tokens in the cache; `last` goes there
  length: SlotArray  # [n] i32  tokens of its message so far
  budget: SlotArray  # [n] i32  tokens of its message at most
  # [n, 2] u32  of its message: token t is drawn by fold_in(key, t)
  key: SlotArray
  temperature: SlotArray  # [n] f32
  top_k: SlotArray  # [n] i32
  top_p: SlotArray  # [n] f32
  adapter: SlotArray  # [n] i32  of several on one base


class DecodeOutputs(NamedTuple):
  """The next tokens of each slot, D at most."""

  count: Array  # type: ignore[assignment]  # [n] i32
  tokens: Array  # [n, D] i32
  logp: Array  # [n, D] f32  before top-k and top-p, nats
  entropy: Array  # [n, D] f32  of the truncated distribution, nats


class Programs(NamedTuple):
  """All of them jitted; `cache` is donated.

  prepare: params, or a tuple of adapters on one base -> params of the others
  empty: () -> cache
  read: (params, cache, slot [p], tokens [p, C], start [p], adapter [p])
    -> cache; slot n: padding. p = n: every slot, in order
  write: (params, cache, DecodeInputs) -> cache, DecodeOutputs
  copy: (cache, source [f], target [f]) -> cache; target n: padding
  """

  prepare: Callable
  empty: Callable
  read: Callable
  write: Callable
  copy: Callable


@functools.lru_cache(maxsize=8)
def programs(
  shape: transformer.DecoderConfig, n: int, capacity: int, eot: int, burst: int
) -> Programs:
  """Compiles the programs for n slots of `capacity` positions each."""

  def empty():
    return _laid(decode.empty(shape, n, capacity))

  def prepare(params):
    if isinstance(params, tuple):
      return lora.stack([prepare(x) for x in params])
    return decode.prepare_decode_params(shape, params)

  def read(params, cache, slot, tokens, start, adapter):
    params = lora.select(params, adapter)
    return _laid(_prefill(shape, n, params, cache, slot, tokens, start))

  def write(params, cache, w: DecodeInputs):
    params = lora.select(params, w.adapter)
    cache, out = _decode(shape, eot, burst, params, cache, w)
    return _laid(cache), out

  def copy(cache, source, target):
    return _laid(
      jax.tree.map(lambda x: x.at[target].set(x[source], mode='drop'), cache)
    )

  return Programs(
    prepare=jax.jit(prepare),
    empty=jax.jit(mesh.auto(empty, HELD)),
    read=jax.jit(mesh.auto(read, HELD), donate_argnums=1),
    write=jax.jit(mesh.auto(write, HELD, None), donate_argnums=1),
    copy=jax.jit(mesh.auto(copy, HELD), donate_argnums=0),
  )


def _laid(cache):
  """Shards the cache by slots and heads."""
  return jax.tree.map(lambda x: mesh.with_logical_sharding(x, *HELD), cache)


def _prefill(shape, n: int, params, cache, slot, tokens_PC, start_P):
  """Fills the cache; the top layer computes keys and values only."""
  look = jnp.zeros_like(start_P)
  if slot.shape[0] == n:
    return decode.forward_with_cache(
      shape, params, cache, tokens_PC, start_P, look
    )[1]
  rows = jax.tree.map(lambda x: x[slot], cache)
  _, rows = decode.forward_with_cache(
    shape, params, rows, tokens_PC, start_P, look
  )
  return jax.tree.map(
    lambda old, new: old.at[slot].set(new, mode='drop'), cache, rows
  )


def _decode(shape, eot: int, burst: int, params, cache, w: DecodeInputs):
  n = w.last.shape[0]
  keys = jax.random.wrap_key_data(w.key)
  nothing = DecodeOutputs(
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
    hidden, cache = decode.forward_with_cache(
      shape, params, cache, last[:, None], w.filled + t
    )
    logits = transformer.logits(params, hidden, shape.logit_cap)[:, 0]
    token, logp, entropy = sampling.draw(
      logits,
      jax.vmap(jax.random.fold_in)(keys, w.length + t),
      w.temperature,
      w.top_k,
      w.top_p,
    )
    out = DecodeOutputs(
      count=out.count + live,
      tokens=out.tokens.at[:, t].set(jnp.where(live, token, 0)),
      logp=out.logp.at[:, t].set(jnp.where(live, logp, 0.0)),
      entropy=out.entropy.at[:, t].set(jnp.where(live, entropy, 0.0)),
    )
    live &= (token != eot) & (w.length + t + 1 < w.budget)
    return t + 1, cache, token, live, out

  carry = (jnp.int32(0), cache, w.last, w.live, nothing)
  _, cache, _, _, out = jax.lax.while_loop(more, step, carry)
  return cache, out
