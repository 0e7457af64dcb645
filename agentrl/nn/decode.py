"""Incremental decoding with a KV cache.

The other way through the layers of nn/transformer.py. What slots begin alike
with may be held once for all of them (SharedPrefix).
"""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from agentrl.nn import decode_kernel, kv_cache, paged_cache, transformer
from agentrl.nn.config import DecoderConfig
from agentrl.nn.transformer import LayerContext
from agentrl.types import Array

# KV cache of the slots, layer by layer.
Cache = tuple[kv_cache.Layer, ...]


class SharedPrefix(NamedTuple):
  """What F families of slots have read; slot f * W + w is of family f."""

  cache: Cache  # of F slots
  length: Array  # [F] i32  how many positions of it are filled


def empty(c: DecoderConfig, n: int, capacity: int) -> Cache:
  """Makes room for `capacity` positions of n slots."""
  paged = paged_cache.chosen(c.decode_attention)
  return tuple(
    kv_cache.empty(n, capacity, c.kv_heads, c.head_dim, c.dtype, paged=paged)
    for _ in range(c.layers)
  )


def begin(cache: Cache, prompts: Cache) -> Cache:
  """Begins a cache with what the slots have read at its first positions."""
  return tuple(
    kv_cache.begin(*layers) for layers in zip(cache, prompts, strict=True)
  )


def prepare_decode_params(c: DecoderConfig, params) -> dict:
  """Unstacks the layers and casts the parameters, outside of any loop.

  In the numbers that they are computed with: they are read for each token.
  """
  layers = {
    # Norms multiply in float32.
    name: x if name.endswith('norm') else optax.tree.cast(x, c.dtype)
    for name, x in params['layers'].items()
  }
  own = transformer.gathered(c, {**params, 'layers': layers})
  table = own['embed'].astype(c.dtype)
  head = table.T if c.tied else own['head'].astype(c.dtype)
  each = transformer.each(c, own['layers'])
  embed = table if embeds_exactly(c) else own['embed']
  return {**own, 'embed': embed, 'layers': each, 'head': head}


def embeds_exactly(c: DecoderConfig) -> bool:
  """Returns whether embeddings may be rounded before they are looked up.

  What scales them, or is added to them, meets them in float32.
  """
  return c.embed_scale == 1 and not c.positions


def forward_with_cache(
  c: DecoderConfig,
  params,
  read: Cache,
  tokens_NC,
  start_N,
  look_N=None,
  prefix: SharedPrefix | None = None,
):
  """Appends C tokens to every slot, slot n at positions start_N[n]...

  With a prefix, positions of the cache are counted from its end.

  Tokens past a slot's true length may hold anything: they are overwritten by
  the next call, which starts at the true length, before anybody looks there.

  Args:
    params: from `prepare_decode_params`
    tokens_NC: [N, C] i32
    start_N: [N] i32, how many positions each slot has filled; None: all start
      afresh, which is cheaper
    look_N: [N] i32, the one token of the C after which somebody will look; the
      top layer then answers there alone. None: everywhere
    prefix: what the slots have read before
  Returns: normed hidden states [N, C, D], or [N, 1, D] if look_N; cache
  """
  n, chunk = tokens_NC.shape
  first = jnp.zeros(n, jnp.int32) if start_N is None else start_N
  pos = first[:, None] + jnp.arange(chunk, dtype=jnp.int32)[None]
  if prefix is not None:
    pos += jnp.repeat(prefix.length, n // prefix.length.shape[0])[:, None]
  x, out = transformer.embed(c, params, tokens_NC, pos), []
  for i, (p, layer) in enumerate(zip(params['layers'], read, strict=True)):
    look = look_N if i == c.layers - 1 else None
    way = LayerContext(pos, c.window(i), None)
    before = None
    if prefix is not None:
      before = kv_cache.PrefixLayer(prefix.cache[i], prefix.length)
    x, layer = _extend_layer(c, p, layer, way, x, start_N, look, before)
    out.append(layer)
  return transformer.normed(c, params, 'norm', x), tuple(out)


def _extend_layer(
  c: DecoderConfig,
  p,
  layer,
  way: LayerContext,
  x_NCD,
  start_N,
  look_N,
  prefix: kv_cache.PrefixLayer | None,
):
  """Runs one layer of `forward_with_cache`; -> x and its cache."""
  y = transformer.normed(c, p, 'attn_norm', x_NCD)
  k, v = (transformer.heads(c, p, y, way, name) for name in 'kv')
  layer = kv_cache.write(layer, k, v, start_N)
  if look_N is not None:
    at = look_N[:, None]
    x_NCD = jnp.take_along_axis(x_NCD, at[..., None], axis=1)
    way = way._replace(pos=jnp.take_along_axis(way.pos, at, axis=1))
    start_N = look_N if start_N is None else start_N + look_N

  kernel = decode_kernel.chosen(c.decode_attention, c.head_dim)

  def attend(q, *_):
    size, cap = c.query_size, c.score_cap
    return kv_cache.attend(
      layer, q, start_N, way.window, size, cap, prefix, kernel
    )

  # The block's own keys are these again: the compiler makes them once.
  x, _ = transformer.block(c, p, x_NCD, way._replace(attend=attend))
  return x, layer
