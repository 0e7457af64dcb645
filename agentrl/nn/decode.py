"""The decoder token by token: what is read is appended to a cache.

The other way through the layers of nn/transformer.py.
"""

import jax
import jax.numpy as jnp

from agentrl.nn import kv_cache, transformer
from agentrl.nn.config import Shape
from agentrl.nn.transformer import Way

# What the slots have read, layer by layer.
Cache = tuple[kv_cache.Layer, ...]


def empty(c: Shape, n: int, capacity: int) -> Cache:
  """Room for `capacity` positions of n slots."""
  return tuple(
    kv_cache.empty(n, capacity, c.kv_heads, c.head_dim, c.dtype)
    for _ in range(c.layers)
  )


def unstack(c: Shape, params) -> dict:
  """Layers as a tuple and a head, made once, outside of a decoding loop.

  In the numbers that they are computed with: they are read for each token.
  """
  told = {name: _cast(c, name, x) for name, x in params['layers'].items()}
  own = transformer.gathered(c, {**params, 'layers': told})
  head = (own['embed'].T if c.tied else own['head']).astype(c.dtype)
  return {**own, 'layers': transformer.each(c, own['layers']), 'head': head}


def _cast(c: Shape, name: str, x):
  """A matrix or bias as it enters a product; norms multiply in float32."""
  if name.endswith('norm'):
    return x
  return jax.tree.map(lambda a: a.astype(c.dtype), x)


def extend(c: Shape, params, read: Cache, tokens_NC, start_N, look_N=None):
  """Appends C tokens to every slot, slot n at positions start_N[n]...

  Tokens past a slot's true length may hold anything: they are overwritten by
  the next call, which starts at the true length, before anybody looks there.

  Args:
    params: from `unstack`
    tokens_NC: [N, C] i32
    start_N: [N] i32, how many positions each slot has filled; None: all start
      afresh, which is cheaper
    look_N: [N] i32, the one token of the C after which somebody will look; the
      top layer then answers there alone. None: everywhere
  Returns: normed hidden states [N, C, D], or [N, 1, D] if look_N; cache
  """
  n, chunk = tokens_NC.shape
  first = jnp.zeros(n, jnp.int32) if start_N is None else start_N
  pos = first[:, None] + jnp.arange(chunk, dtype=jnp.int32)[None]
  x, out = transformer.embed(c, params, tokens_NC, pos), []
  for i, (p, layer) in enumerate(zip(params['layers'], read, strict=True)):
    look = look_N if i == c.layers - 1 else None
    way = Way(pos, c.window(i), None)
    x, layer = _extend_layer(c, p, layer, way, x, start_N, look)
    out.append(layer)
  return transformer.normed(c, params, 'norm', x), tuple(out)


def _extend_layer(c: Shape, p, layer, way: Way, x_NCD, start_N, look_N):
  """One layer of `extend`: what it makes of x, and its cache."""
  y = transformer.normed(c, p, 'attn_norm', x_NCD)
  k, v = (transformer.heads(c, p, y, way, name) for name in 'kv')
  layer = kv_cache.write(layer, k, v, start_N)
  if look_N is not None:
    at = look_N[:, None]
    x_NCD = jnp.take_along_axis(x_NCD, at[..., None], axis=1)
    way = way._replace(pos=jnp.take_along_axis(way.pos, at, axis=1))
    start_N = way.pos[:, 0]

  def attend(q, *_):
    size, cap = c.query_size, c.score_cap
    return kv_cache.attend(layer, q, start_N, way.window, size, cap)

  # The block's own keys are these again: the compiler makes them once.
  x, _ = transformer.block(c, p, x_NCD, way._replace(attend=attend))
  return x, layer
