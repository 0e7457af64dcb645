"""One decoder in the modern shape, for policy, value and implicit PRM.

Pre-norm (RMSNorm), rotary positions, grouped-query attention, SwiGLU; biases,
QK-norm, tied embeddings and learned positions as the family asks. Parameters
of the layers are stacked on a leading `layers` axis. Two ways through the same
`block`: `forward` reads whole rows, `extend` appends tokens to a cache.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.mesh import Param
from agentrl.nn import attention, cache, layers


@dataclasses.dataclass(frozen=True)
class Shape:
  """Sizes and switches of a decoder."""

  vocab: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp: int
  theta: float = 10_000.0
  eps: float = 1e-6
  positions: int = 0  # learned ones, added to tokens; 0: rotary alone
  qk_norm: bool = False
  bias: bool = False  # on q, k, v
  tied: bool = True
  remat: bool = False  # recompute each layer in the backward pass
  dtype: str = 'float32'  # of the computation; parameters stay float32

  def __post_init__(self):
    if self.heads % self.kv_heads:
      raise ValueError(
        f'model.heads={self.heads} is not a multiple of'
        f' model.kv_heads={self.kv_heads}; make it one'
      )
    if self.head_dim % 2:
      raise ValueError(
        f'model.head_dim={self.head_dim} must be even for rotary positions'
      )


EMBED = ('embed',)  # whole while computing
UNROLL = 8  # layers; a deeper stack is a loop
# Tokens that a chunk of time holds: few, so that what nobody wants (a prompt)
# is skipped; enough for an efficient product.
CHUNK = 2048


def specs(c: Shape) -> dict:
  """Parameters of the decoder."""
  L, D, H, G, d, F = (
    c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.mlp
  )  # fmt: skip

  def w(shape, axes, fan_in):
    return Param((L, *shape), ('layers', *axes), _normal(fan_in**-0.5))

  # Residual branches start small so that depth does not change the scale.
  out = 1 / math.sqrt(2 * L)
  layer = {
    'attn_norm': Param((L, D), ('layers', 'embed'), _ones),
    'q': w((D, H, d), ('embed', 'heads', None), D),
    'k': w((D, G, d), ('embed', 'kv_heads', None), D),
    'v': w((D, G, d), ('embed', 'kv_heads', None), D),
    'o': w((H, d, D), ('heads', None, 'embed'), H * d / out**2),
    'mlp_norm': Param((L, D), ('layers', 'embed'), _ones),
    'gate': w((D, F), ('embed', 'mlp'), D),
    'up': w((D, F), ('embed', 'mlp'), D),
    'down': w((F, D), ('mlp', 'embed'), F / out**2),
  }
  if c.bias:
    layer |= {
      'q_bias': Param((L, H, d), ('layers', 'heads', None), _zeros),
      'k_bias': Param((L, G, d), ('layers', 'kv_heads', None), _zeros),
      'v_bias': Param((L, G, d), ('layers', 'kv_heads', None), _zeros),
    }
  if c.qk_norm:
    layer |= {
      'q_norm': Param((L, d), ('layers', None), _ones),
      'k_norm': Param((L, d), ('layers', None), _ones),
    }
  tree = {
    'embed': Param((c.vocab, D), ('vocab', 'embed'), _normal(0.02)),
    'layers': layer,
    'norm': Param((D,), ('embed',), _ones),
  }
  if c.positions:
    tree['positions'] = Param(
      (c.positions, c.width), (None, 'embed'), _normal(0.02)
    )
  if not c.tied:
    tree['head'] = Param((D, c.vocab), ('embed', 'vocab'), _normal(D**-0.5))
  return tree


def _ones(key, shape):
  return jnp.ones(shape)


def _zeros(key, shape):
  return jnp.zeros(shape)


def _normal(std: float):
  return lambda key, shape: std * jax.random.normal(key, shape)


def embed(c: Shape, params, tokens_NT, pos_NT):
  """Token embeddings, with those of positions where learned: [N, T, D]."""
  take = mesh.auto(lambda e, i: e[i], ('batch', None, None))
  table = mesh.place(params['embed'], None, None)
  x = take(table, jnp.maximum(tokens_NT, 0))
  if c.positions:
    x += take(mesh.place(params['positions'], None, None), pos_NT)
  return x.astype(c.dtype)


def head(params):
  """What logits are made with, as it is stored, and which axis is words."""
  if 'head' in params:
    return params['head'], 1
  return params['embed'], 0


def logits(params, x_NTD):
  """Next-token logits [N, T, V] in float32, of normed hidden states."""
  tied = 'head' not in params
  w = mesh.place(params['embed'].T, None, 'vocab') if tied else params['head']
  return layers.dense(x_NTD, w, EMBED, ('vocab',)).astype(jnp.float32)


def block(c: Shape, p: dict, x_NTD, pos_NT, attend):
  """One layer: x + attention, then x + SwiGLU.

  attend: (q [N, T, H, d], k, v [N, T, G, d]) -> [N, T, H, d].
  """
  y = layers.rms_norm(p['attn_norm'], x_NTD, c.eps)
  q, k, v = (_heads(c, p, y, pos_NT, name) for name in 'qkv')
  x_NTD += layers.dense(attend(q, k, v), p['o'], ('heads', None), EMBED)

  y = layers.rms_norm(p['mlp_norm'], x_NTD, c.eps)
  gate = layers.dense(y, p['gate'], EMBED, ('mlp',))
  up = layers.dense(y, p['up'], EMBED, ('mlp',))
  return x_NTD + layers.dense(
    jax.nn.silu(gate) * up, p['down'], ('mlp',), EMBED
  )


def _heads(c: Shape, p: dict, y_NTD, pos_NT, name: str):
  """Queries, keys or values (q, k, v) of normed inputs: [N, T, heads, d]."""
  axis = 'heads' if name == 'q' else 'kv_heads'
  x = layers.dense(y_NTD, p[name], EMBED, (axis, None))
  if c.bias:
    x += p[f'{name}_bias'][None, None].astype(x.dtype)
  if name == 'v':
    return x
  if c.qk_norm:
    x = layers.rms_norm(p[f'{name}_norm'], x, c.eps)
  return layers.rotary(x, pos_NT, c.theta)


def forward(c: Shape, params, tokens_NT, seg_NT, look_NT=None):
  """Normed hidden states [N, T, D] of rows; hidden[t] has seen tokens <= t.

  Args:
    look_NT: bool, where somebody will look; elsewhere the result may hold
      anything finite. None: everywhere
  """
  params = _gathered(c, params)
  pos = layers.positions(seg_NT)
  mask = attention.row_mask(seg_NT)

  def step(x, p):
    attend = functools.partial(attention.attend, mask_NTS=mask)
    return block(c, p, x, pos, attend), None

  if c.remat:
    step = jax.checkpoint(step)
  x = embed(c, params, tokens_NT, pos)
  if look_NT is None or c.layers > UNROLL:
    # Unrolled where it can be: slicing stacked parameters in a loop copies.
    x, _ = jax.lax.scan(step, x, params['layers'], unroll=c.layers <= UNROLL)
  else:
    *under, top = _unstack(c, params['layers'])
    for p in under:
      x, _ = step(x, p)
    x = _answer(c, top, x, pos, mask, look_NT)
  return layers.rms_norm(params['norm'], x, c.eps)


def _answer(c: Shape, p: dict, x_NTD, pos_NT, mask_NTS, look_NT):
  """The last layer: keys and values of all, answers where somebody looks."""
  y = layers.rms_norm(p['attn_norm'], x_NTD, c.eps)
  k, v = (_heads(c, p, y, pos_NT, name) for name in 'kv')

  def some(x, pos, mask):
    return block(c, p, x, pos, lambda q, *_: attention.attend(q, k, v, mask))

  xs = x_NTD, pos_NT, mask_NTS
  return layers.over_time(some, lambda x, *_: x, xs, look_NT, CHUNK)


def _gathered(c: Shape, params) -> dict:
  """The decoder's own parameters, without heads that stand beside them."""
  own = specs(c)
  return mesh.gather_params({name: params[name] for name in own}, own)


def _unstack(c: Shape, stacked) -> tuple:
  """A tree of stacked parameters as one tree for each layer."""
  return tuple(jax.tree.map(lambda x: x[i], stacked) for i in range(c.layers))


# What the slots have read, layer by layer.
Cache = tuple[cache.Layer, ...]


def empty_cache(c: Shape, n: int, capacity: int) -> Cache:
  """Room for `capacity` positions of n slots."""
  return tuple(
    cache.empty(n, capacity, c.kv_heads, c.head_dim, c.dtype)
    for _ in range(c.layers)
  )


def unstack(c: Shape, params) -> dict:
  """Layers as a tuple and a head, made once, outside of a decoding loop."""
  params = _gathered(c, params)
  head = params['embed'].T if c.tied else params['head']
  return {**params, 'layers': _unstack(c, params['layers']), 'head': head}


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
  x, out = embed(c, params, tokens_NC, pos), []
  *under, top = zip(params['layers'], read, strict=True)
  for p, layer in under:
    x, layer = _extend_layer(c, p, layer, x, pos, start_N)
    out.append(layer)
  x, layer = _extend_layer(c, *top, x, pos, start_N, look_N)
  x = layers.rms_norm(params['norm'], x, c.eps)
  return x, (*out, layer)


def _extend_layer(c: Shape, p, layer, x_NCD, pos_NC, start_N, look_N=None):
  """One layer of `extend`: what it makes of x, and its cache."""
  y = layers.rms_norm(p['attn_norm'], x_NCD, c.eps)
  k, v = (_heads(c, p, y, pos_NC, name) for name in 'kv')
  layer = cache.write(layer, k, v, start_N)
  if look_N is not None:
    at = look_N[:, None]
    x_NCD = jnp.take_along_axis(x_NCD, at[..., None], axis=1)
    pos_NC = jnp.take_along_axis(pos_NC, at, axis=1)
    start_N = pos_NC[:, 0]
  # The block's own keys are these again: the compiler makes them once.
  x = block(c, p, x_NCD, pos_NC, lambda q, *_: cache.attend(layer, q, start_N))
  return x, layer
