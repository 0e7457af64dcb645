"""One decoder in the modern shape, for policy, value and implicit PRM.

Pre-norm (RMSNorm), rotary positions, grouped-query attention, a gated MLP or
experts; what else the families differ in is data of `Shape`. Parameters of the
layers are stacked on a leading `layers` axis. Two ways through the same
`block`: `forward` reads whole rows, `extend` appends tokens to a cache.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import attention, cache, experts, kernels, layers, lora
from agentrl.nn import rope as rotary
from agentrl.nn.shape import Shape, layer_specs, specs
from agentrl.types import Array

EMBED = ('embed',)  # whole while computing
UNROLL = 8  # layers; a deeper stack is a loop
# Tokens that a chunk of time holds: few, so that what nobody wants (a prompt)
# is skipped; enough for an efficient product.
CHUNK = 2048


class Way(NamedTuple):
  """How a layer sees tokens."""

  pos: Array  # [N, T] i32  in their segments
  window: int  # tokens, its own among them; 0: all before
  attend: Callable  # (q [N, T, H, d], k, v [N, T, G, d]) -> [N, T, H, d]
  live: Array | None = None  # [N, T] bool  that count in Routing; None: all
  rows: layers.Axes = layers.ROWS  # logical axes of N and T


def embed(c: Shape, params, tokens_NT, pos_NT, rows=layers.ROWS):
  """Token embeddings, with those of positions where learned: [N, T, D].

  Args:
    params: gathered
    rows: logical axes of N and T
  """
  words = (('vocab', None), rows), ((*rows, None),)
  (x,) = mesh.local(_look_up, *words)(params['embed'], tokens_NT)
  if c.embed_scale != 1.0:
    x *= c.embed_scale
  if c.positions:
    take = mesh.auto(lambda e, i: e[i], (*rows, None))
    x += take(params['positions'], pos_NT)
  return x.astype(c.dtype)


def _look_up(table_VD, tokens_NT):
  """Of a device's words; each word stands on one of them."""
  at = jnp.maximum(tokens_NT, 0) - mesh.index('vocab') * len(table_VD)
  inside = (at >= 0) & (at < len(table_VD))
  x = jnp.where(inside[..., None], table_VD[jnp.where(inside, at, 0)], 0)
  return (mesh.total(x, 'vocab'),)


def head(params):
  """What logits are made with, as it is stored, and which axis is words."""
  if 'head' in params:
    return params['head'], 1
  return params['embed'], 0


def logits(params, x_NTD, cap: float = 0.0):
  """Next-token logits [N, T, V] in float32, of normed hidden states.

  cap: the shape's logit_cap.
  """
  tied = 'head' not in params
  w = mesh.place(params['embed'].T, None, 'vocab') if tied else params['head']
  x = layers.dense(x_NTD, w, EMBED, ('vocab',)).astype(jnp.float32)
  return layers.soft_cap(x, cap)


def block(c: Shape, p: dict, x_NTD, way: Way):
  """One layer: x + attention, then x + MLP.

  Returns: [N, T, D], Routing of this layer (None without experts)
  """
  y = _normed(c, p, 'attn_norm', x_NTD)
  q, k, v = (_heads(c, p, y, way, name) for name in 'qkv')
  y = way.attend(q, k, v)
  y = layers.dense(y, p['o'], ('heads', None), EMBED, way.rows)
  y = _biased(y, p, 'o_bias', c.out_bias)
  x_NTD += _normed(c, p, 'attn_post_norm', y) if c.post_norm else y

  y = _normed(c, p, 'mlp_norm', x_NTD)
  y, routing = (
    _experts(c, p, y, way) if c.experts else (_mlp(c, p, y, way), None)
  )
  y = _normed(c, p, 'mlp_post_norm', y) if c.post_norm else y
  return x_NTD + y, routing


def _experts(c: Shape, p: dict, x_NTD, way: Way):
  live = jnp.ones(way.pos.shape, bool) if way.live is None else way.live
  how = experts.Mix(c.top_k, c.unit_top_k, layers.ACTIVATIONS[c.activation])
  return experts.mix(how, p, layer_specs(c), x_NTD, live, way.rows)


def _mlp(c: Shape, p: dict, x_NTD, way: Way):
  """down(act(gate x) * up x) (2002.05202)."""
  gate = layers.dense(x_NTD, p['gate'], EMBED, ('mlp',), way.rows)
  up = layers.dense(x_NTD, p['up'], EMBED, ('mlp',), way.rows)
  gate = _biased(gate, p, 'gate_bias', c.mlp_bias)
  up = _biased(up, p, 'up_bias', c.mlp_bias)
  y = layers.ACTIVATIONS[c.activation](gate) * up
  y = layers.dense(y, p['down'], ('mlp',), EMBED, way.rows)
  return _biased(y, p, 'down_bias', c.mlp_bias)


def _normed(c: Shape, p: dict, name: str, x):
  return layers.rms_norm(p[name], x, c.eps, c.norm_offset)


def _biased(x, p: dict, name: str, there: bool):
  """x + bias [...], over the leading axes of x."""
  return x + p[name][None, None].astype(x.dtype) if there else x


def _heads(c: Shape, p: dict, y_NTD, way: Way, name: str):
  """Queries, keys or values (q, k, v) of normed inputs: [N, T, heads, d]."""
  axis = 'heads' if name == 'q' else 'kv_heads'
  x = layers.dense(y_NTD, p[name], EMBED, (axis, None), way.rows)
  x = _biased(x, p, f'{name}_bias', c.bias)
  if name == 'v':
    return x
  if c.qk_norm:
    x = _normed(c, p, f'{name}_norm', x)
  return rotary.rotate(c.rope(way.window), x, way.pos)


def forward(c: Shape, params, tokens_NT, seg_NT, look_NT=None):
  """Normed hidden states [N, T, D] of rows; hidden[t] has seen tokens <= t.

  Args:
    look_NT: bool, where somebody will look; elsewhere the result may hold
      anything finite. None: everywhere
  """
  if look_NT is None or c.layers > UNROLL or _kernel(c, seg_NT) != 'xla':
    return routed(c, params, tokens_NT, seg_NT)[0]
  params = _gathered(c, params)
  pos, step = _reading(c, seg_NT)
  x = embed(c, params, tokens_NT, pos)
  *under, top = _unstack(c, params['layers'])
  for i, p in enumerate(under):
    x, _ = step(c.window(i))(x, p)
  window = c.window(c.layers - 1)
  mask = attention.row_mask(seg_NT, window)
  x = _answer(c, top, x, Way(pos, window, None), mask, look_NT)
  return _normed(c, params, 'norm', x)


def routed(c: Shape, params, tokens_NT, seg_NT):
  """As `forward`, with what the routers did: [N, T, D], Routing.

  Routing is of the tokens in segments >= 0; None without experts.
  """
  t, rows = tokens_NT.shape[1], ('batch', mesh.split('time'))
  tokens_NT = mesh.even(tokens_NT, 1, 'time')
  seg_NT = mesh.even(seg_NT, 1, 'time', -1)
  outer = {name: params[name] for name in specs(c) if name != 'layers'}
  outer = mesh.gather_params(outer, {name: specs(c)[name] for name in outer})
  pos, step = _reading(c, seg_NT, rows)
  x = embed(c, outer, mesh.place(tokens_NT, *rows), pos, rows)
  x, routing = _climb(c, step, x, params['layers'])
  x = mesh.place(_normed(c, outer, 'norm', x), *layers.ROWS, None)
  return x[:, :t], routing


def _kernel(c: Shape, seg_NT) -> str:
  """What reads such rows: 'xla', or a name that kernels.attend knows."""
  return kernels.choose(
    c.attention, seg_NT.shape[1], c.head_dim, c.dtype, c.score_cap
  )


def _reading(c: Shape, seg_NT, rows=layers.ROWS):
  """Positions; window -> (x, layer's parameters as stored) -> x, Routing."""
  pos, name = layers.positions(seg_NT), _kernel(c, seg_NT)
  pos, live = (mesh.place(x, *rows) for x in (pos, seg_NT >= 0))
  each = layer_specs(c)

  def attending(window: int):
    if name == 'xla':
      mask = attention.row_mask(seg_NT, window)
      return functools.partial(
        attention.attend, mask_NTS=mask, size=c.query_size, cap=c.score_cap
      )
    look = kernels.Look(window, c.query_size, c.score_cap)
    return functools.partial(kernels.attend, name, look, seg_NT=seg_NT)

  attends = {w: attending(w) for w in set(c.windows) or {0}}

  def step(window: int):
    way = Way(pos, window, attends[window], live, rows)

    def run(x, p):
      return block(c, lora.gather(p, each), x, way)

    return _leaner(c, run)

  return pos, step


def _leaner(c: Shape, layer):
  """The layer, of which c.remat says what the backward pass keeps."""
  if c.remat == 'none':
    return layer
  keep = jax.checkpoint_policies
  policies = {
    'layer': keep.nothing_saveable,
    'dots': keep.dots_with_no_batch_dims_saveable,
  }
  return jax.checkpoint(layer, policy=policies[c.remat])


def _climb(c: Shape, step, x, stacked):
  """x through all layers, and Routing of each [L, ...].

  A deep stack is a loop; where windows alternate, each round is a period of
  them, and what is left of the last period follows.
  """
  if c.period == 1:
    # Unrolled where it can be: slicing stacked parameters in a loop copies.
    return jax.lax.scan(
      step(c.window(0)), x, stacked, unroll=c.layers <= UNROLL
    )
  rounds = c.layers // c.period if c.layers > UNROLL else 0
  many = rounds * c.period

  def period(x, ps):
    return _one_by_one(c, step, x, ps, range(c.period))

  told = []
  if rounds:
    loop = jax.tree.map(
      lambda a: a.reshape(rounds, c.period, *a.shape[1:]),
      _layers(stacked, 0, many),
    )
    x, of_loop = jax.lax.scan(period, x, loop)
    told.append(jax.tree.map(lambda a: a.reshape(many, *a.shape[2:]), of_loop))
  if many < c.layers:
    rest = _layers(stacked, many, c.layers)
    x, of_rest = _one_by_one(c, step, x, rest, range(many, c.layers))
    told.append(of_rest)
  return x, jax.tree.map(lambda *a: jnp.concatenate(a), *told)


def _one_by_one(c: Shape, step, x, stacked, indices):
  """x through the layers of these indices, stacked[0] the first of them."""
  told = []
  for i, index in enumerate(indices):
    x, new = step(c.window(index))(x, _layer(stacked, i))
    told.append(new)
  return x, jax.tree.map(lambda *a: jnp.stack(a), *told)


def _answer(c: Shape, p: dict, x_NTD, way: Way, mask_NTS, look_NT):
  """The last layer: keys and values of all, answers where somebody looks."""
  y = _normed(c, p, 'attn_norm', x_NTD)
  k, v = (_heads(c, p, y, way, name) for name in 'kv')

  def some(x, pos, mask):
    def attend(q, *_):
      return attention.attend(q, k, v, mask, c.query_size, c.score_cap)

    return block(c, p, x, way._replace(pos=pos, attend=attend))[0]

  xs = x_NTD, way.pos, mask_NTS
  return layers.over_time(some, lambda x, *_: x, xs, look_NT, CHUNK)


def _gathered(c: Shape, params) -> dict:
  """The decoder's own parameters, without heads that stand beside them."""
  own = specs(c)
  return lora.gather({name: params[name] for name in own}, own)


def _unstack(c: Shape, stacked) -> tuple:
  """A tree of stacked parameters as one tree for each layer."""
  return tuple(_layer(stacked, i) for i in range(c.layers))


# Not by [...]: gradients that are added where they are made (model/passes.py)
# cannot go back through it in JAX 0.10.
def _layer(stacked, i: int):
  return jax.tree.map(
    lambda x: jax.lax.index_in_dim(x, i, keepdims=False), stacked
  )


def _layers(stacked, start: int, end: int):
  return jax.tree.map(lambda x: jax.lax.slice_in_dim(x, start, end), stacked)


# What the slots have read, layer by layer.
Cache = tuple[cache.Layer, ...]


def empty_cache(c: Shape, n: int, capacity: int) -> Cache:
  """Room for `capacity` positions of n slots."""
  return tuple(
    cache.empty(n, capacity, c.kv_heads, c.head_dim, c.dtype)
    for _ in range(c.layers)
  )


def unstack(c: Shape, params) -> dict:
  """Layers as a tuple and a head, made once, outside of a decoding loop.

  In the numbers that they are computed with: they are read for each token.
  """
  told = {name: _cast(c, name, x) for name, x in params['layers'].items()}
  own = _gathered(c, {**params, 'layers': told})
  head = (own['embed'].T if c.tied else own['head']).astype(c.dtype)
  return {**own, 'layers': _unstack(c, own['layers']), 'head': head}


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
  x, out = embed(c, params, tokens_NC, pos), []
  for i, (p, layer) in enumerate(zip(params['layers'], read, strict=True)):
    look = look_N if i == c.layers - 1 else None
    way = Way(pos, c.window(i), None)
    x, layer = _extend_layer(c, p, layer, way, x, start_N, look)
    out.append(layer)
  return _normed(c, params, 'norm', x), tuple(out)


def _extend_layer(c: Shape, p, layer, way: Way, x_NCD, start_N, look_N):
  """One layer of `extend`: what it makes of x, and its cache."""
  y = _normed(c, p, 'attn_norm', x_NCD)
  k, v = (_heads(c, p, y, way, name) for name in 'kv')
  layer = cache.write(layer, k, v, start_N)
  if look_N is not None:
    at = look_N[:, None]
    x_NCD = jnp.take_along_axis(x_NCD, at[..., None], axis=1)
    way = way._replace(pos=jnp.take_along_axis(way.pos, at, axis=1))
    start_N = way.pos[:, 0]

  def attend(q, *_):
    size, cap = c.query_size, c.score_cap
    return cache.attend(layer, q, start_N, way.window, size, cap)

  # The block's own keys are these again: the compiler makes them once.
  x, _ = block(c, p, x_NCD, way._replace(attend=attend))
  return x, layer
