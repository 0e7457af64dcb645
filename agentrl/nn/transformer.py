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
from flax import struct

from agentrl import mesh
from agentrl.mesh import Param
from agentrl.nn import attention, layers


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


def logits(c: Shape, params, x_NTD):
  """Next-token logits [N, T, V] in float32, of normed hidden states."""
  axes = ('batch', None, 'vocab')
  if c.tied:
    w = mesh.place(params['embed'], 'vocab', None).astype(c.dtype)
    return mesh.einsum('ntd,vd->ntv', x_NTD, w, axes=axes).astype(jnp.float32)
  w = params['head'].astype(c.dtype)
  return mesh.einsum('ntd,dv->ntv', x_NTD, w, axes=axes).astype(jnp.float32)


def block(c: Shape, p: dict, x_NTD, pos_NT, attend):
  """One layer: x + attention, then x + SwiGLU.

  attend: (q [N, T, H, d], k, v [N, T, G, d]) -> [N, T, H, d].
  """
  y = layers.rms_norm(p['attn_norm'], x_NTD, c.eps)
  proj = functools.partial(mesh.einsum, 'ntd,dhk->nthk', y)
  q = proj(p['q'].astype(y.dtype), axes=('batch', None, 'heads', None))
  k = proj(p['k'].astype(y.dtype), axes=('batch', None, 'kv_heads', None))
  v = proj(p['v'].astype(y.dtype), axes=('batch', None, 'kv_heads', None))
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
  z = attend(q, k, v)
  stream = ('batch', None, None)
  x_NTD += mesh.einsum('nthk,hkd->ntd', z, p['o'].astype(z.dtype), axes=stream)

  y = layers.rms_norm(p['mlp_norm'], x_NTD, c.eps)
  wide = ('batch', None, 'mlp')
  gate = mesh.einsum('ntd,df->ntf', y, p['gate'].astype(y.dtype), axes=wide)
  up = mesh.einsum('ntd,df->ntf', y, p['up'].astype(y.dtype), axes=wide)
  z = jax.nn.silu(gate) * up
  down = p['down'].astype(z.dtype)
  return x_NTD + mesh.einsum('ntf,fd->ntd', z, down, axes=stream)


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


@struct.dataclass
class Cache:
  """Keys and values of what each slot has read; index = position."""

  k: tuple[jax.Array, ...]  # per layer [N, S, G, d]
  v: tuple[jax.Array, ...]

  @property
  def capacity(self) -> int:
    return self.k[0].shape[1]


def empty_cache(c: Shape, n: int, capacity: int) -> Cache:
  shape = (n, capacity, c.kv_heads, c.head_dim)
  zeros = tuple(jnp.zeros(shape, c.dtype) for _ in range(c.layers))
  return Cache(k=zeros, v=zeros)


def grow(cache: Cache, capacity: int) -> Cache:
  """The same cache with room for more positions."""
  more = capacity - cache.capacity
  return jax.tree.map(
    lambda x: jnp.pad(x, ((0, 0), (0, more), (0, 0), (0, 0))), cache
  )


def unstack(c: Shape, params) -> dict:
  """Layers as a tuple: outside a decoding loop, so that it copies once."""
  params = mesh.gather_params(params, specs(c))
  split = tuple(
    jax.tree.map(lambda x: x[i], params['layers']) for i in range(c.layers)
  )
  return {**params, 'layers': split}


def extend(c: Shape, params, cache: Cache, tokens_NC, start_N):
  """Appends C tokens to every slot, slot n at positions start_N[n]...

  Tokens past a slot's true length may hold anything: they are overwritten by
  the next call, which starts at the true length, before anybody looks there.
  The capacity must hold max(start) + C.

  Args:
    params: from `unstack`
    tokens_NC: [N, C] i32
    start_N: [N] i32, how many positions each slot has filled
  Returns: normed hidden states [N, C, D], cache
  """
  chunk = tokens_NC.shape[1]
  pos = start_N[:, None] + jnp.arange(chunk, dtype=jnp.int32)[None]
  mask = pos[:, :, None] >= jnp.arange(cache.capacity)[None, None]
  x = embed(c, params, tokens_NC)
  ks, vs = [], []
  for p, k_old, v_old in zip(params['layers'], cache.k, cache.v, strict=True):

    def attend(q, k, v, k_old=k_old, v_old=v_old):
      ks.append(_write(k_old, k, start_N))
      vs.append(_write(v_old, v, start_N))
      return attention.attend(q, ks[-1], vs[-1], mask)

    x = block(c, p, x, pos, attend)
  x = layers.rms_norm(params['norm'], x, c.eps)
  return x, Cache(k=tuple(ks), v=tuple(vs))


def _write(old_NSGd, new_NCGd, start_N):
  put = jax.lax.dynamic_update_slice_in_dim
  return jax.vmap(lambda o, x, s: put(o, x, s, axis=0))(
    old_NSGd, new_NCGd, start_N
  )
