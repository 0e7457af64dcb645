"""One decoder in the modern shape, for policy, value and implicit PRM.

Pre-norm (RMSNorm), rotary positions, grouped-query attention, SwiGLU; biases,
QK-norm and tied embeddings as the family asks. Parameters of the layers are
stacked on a leading `layers` axis. Two ways through the same `block`:
`forward` reads whole rows, `extend` appends tokens to a cache.
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
  if not c.tied:
    tree['head'] = Param((D, c.vocab), ('embed', 'vocab'), _normal(D**-0.5))
  return tree


def _ones(key, shape):
  return jnp.ones(shape)


def _zeros(key, shape):
  return jnp.zeros(shape)


def _normal(std: float):
  return lambda key, shape: std * jax.random.normal(key, shape)


def embed(c: Shape, params, tokens_NT):
  """Token embeddings [N, T, D]."""
  table = mesh.place(params['embed'], None, None)
  take = mesh.auto(lambda e, i: e[i], ('batch', None, None))
  return take(table, jnp.maximum(tokens_NT, 0)).astype(c.dtype)


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
  q = layers.dense(y, p['q'], EMBED, ('heads', None))
  k = layers.dense(y, p['k'], EMBED, ('kv_heads', None))
  v = layers.dense(y, p['v'], EMBED, ('kv_heads', None))
  if c.bias:
    q, k, v = (
      x + p[n][None, None].astype(x.dtype)
      for x, n in ((q, 'q_bias'), (k, 'k_bias'), (v, 'v_bias'))
    )
  if c.qk_norm:
    q = layers.rms_norm(p['q_norm'], q, c.eps)
    k = layers.rms_norm(p['k_norm'], k, c.eps)
  q = layers.rotary(q, pos_NT, c.theta)
  k = layers.rotary(k, pos_NT, c.theta)
  x_NTD += layers.dense(attend(q, k, v), p['o'], ('heads', None), EMBED)

  y = layers.rms_norm(p['mlp_norm'], x_NTD, c.eps)
  gate = layers.dense(y, p['gate'], EMBED, ('mlp',))
  up = layers.dense(y, p['up'], EMBED, ('mlp',))
  return x_NTD + layers.dense(
    jax.nn.silu(gate) * up, p['down'], ('mlp',), EMBED
  )


def forward(c: Shape, params, tokens_NT, seg_NT):
  """Normed hidden states [N, T, D] of rows; hidden[t] has seen tokens <= t."""
  params = mesh.gather_params(params, specs(c))
  pos = layers.positions(seg_NT)
  mask = attention.row_mask(seg_NT)

  def step(x, p):
    attend = functools.partial(attention.attend, mask_NTS=mask)
    return block(c, p, x, pos, attend), None

  if c.remat:
    step = jax.checkpoint(step)
  x = embed(c, params, tokens_NT)
  # A short stack is unrolled: slicing stacked parameters in a loop copies.
  x, _ = jax.lax.scan(step, x, params['layers'], unroll=c.layers <= 8)
  return layers.rms_norm(params['norm'], x, c.eps)


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
  params = mesh.gather_params(params, specs(c))
  head = params['embed'].T if c.tied else params['head']
  split = tuple(
    jax.tree.map(lambda x: x[i], params['layers']) for i in range(c.layers)
  )
  return {**params, 'layers': split, 'head': head}


def extend(c: Shape, params, read: Cache, tokens_NC, start_N):
  """Appends C tokens to every slot, slot n at positions start_N[n]...

  Tokens past a slot's true length may hold anything: they are overwritten by
  the next call, which starts at the true length, before anybody looks there.

  Args:
    params: from `unstack`
    tokens_NC: [N, C] i32
    start_N: [N] i32, how many positions each slot has filled; None: all start
      afresh, which is cheaper
  Returns: normed hidden states [N, C, D], cache
  """
  n, chunk = tokens_NC.shape
  first = jnp.zeros(n, jnp.int32) if start_N is None else start_N
  pos = first[:, None] + jnp.arange(chunk, dtype=jnp.int32)[None]
  x, out = embed(c, params, tokens_NC), []
  for p, layer in zip(params['layers'], read, strict=True):

    def attend(q, k, v, layer=layer):
      out.append(cache.write(layer, k, v, start_N))
      return cache.attend(out[-1], q, start_N)

    x = block(c, p, x, pos, attend)
  return layers.rms_norm(params['norm'], x, c.eps), tuple(out)
