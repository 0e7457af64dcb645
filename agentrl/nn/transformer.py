"""One decoder in the modern shape, for policy, value and implicit PRM.

Pre-norm (RMSNorm), rotary positions, grouped-query attention, a gated MLP or
experts; what else the families differ in is data of `DecoderConfig`. Parameters
of the layers are stacked on a leading `layers` axis. Two ways through the same
`block`: `forward` reads whole rows, nn/decode.py appends tokens to a cache.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import attention, attention_kernels, layers, lora, moe
from agentrl.nn import rope as rotary
from agentrl.nn.config import DecoderConfig, layer_specs, specs
from agentrl.types import Array

EMBED = ('embed',)  # whole while computing
UNROLL = 8  # layers; a deeper stack is a loop
# Tokens that a chunk of time holds: few, so that what nobody wants (a prompt)
# is skipped; enough for an efficient product.
CHUNK = 2048


class LayerContext(NamedTuple):
  """Inputs of a layer besides its parameters and x."""

  pos: Array  # [N, T] i32  in their segments
  window: int  # tokens, its own among them; 0: all before
  attend: Any  # (q [N, T, H, d], k, v [N, T, G, d]) -> [N, T, H, d]
  live: Array | None = None  # [N, T] bool  that count in Routing; None: all
  rows: layers.Axes = layers.ROWS  # logical axes of N and T
  look: Callable | None = None  # (q, k) -> what `block` returns for Routing


@jax.named_scope('embed')
def embed(
  c: DecoderConfig, params, tokens_NT, pos_NT, rows=layers.ROWS, width=None
):
  """Embeds tokens, plus positions if learned: [N, T, D].

  Args:
    params: gathered, the table if width is None
    rows: logical axes of N and T
    width: logical axis of the table's width; 'stored': as parameters are stored
  """
  look_up = functools.partial(_exchange, c.dtype) if width else _look_up
  (x,) = mesh.shard_map(look_up, (('vocab', width), rows), ((*rows, None),))(
    params['embed'], tokens_NT
  )
  if c.embed_scale != 1.0:
    x *= c.embed_scale
  if c.positions:
    take = mesh.auto(lambda e, i: e[i], (*rows, None))
    x += take(params['positions'], pos_NT)
  return x.astype(c.dtype)


def _look_up(table_VD, tokens_NT):
  """Looks embeddings up; the vocabulary may be sharded over devices."""
  at = jnp.maximum(tokens_NT, 0)
  if not mesh.sharded_axis_or_none('vocab'):
    return (table_VD[at],)
  at -= mesh.axis_index('vocab') * len(table_VD)
  inside = (at >= 0) & (at < len(table_VD))
  x = jnp.where(inside[..., None], table_VD[jnp.where(inside, at, 0)], 0)
  return (mesh.psum(x, 'vocab'),)


def _exchange(dtype, table_VD, tokens_NT):
  """Looks embeddings up in a table sharded by width: tokens go to the shards.

  Embeddings, and gradients in the backward pass, are exchanged instead, so the
  table and its gradient are never whole on a device.
  """
  every_SNT = mesh.all_gather(tokens_NT[None], 'stored')
  (x_SNTd,) = _look_up(table_VD, every_SNT)
  x_1NTD = mesh.all_to_all(x_SNTd.astype(dtype), 'stored', 0, 3)
  return (x_1NTD[0],)


def head(params):
  """Returns the output head as stored, and its vocabulary axis."""
  if 'head' in params:
    return params['head'], 1
  return params['embed'], 0


@jax.named_scope('head')
def logits(params, x_NTD, cap: float = 0.0):
  """Computes next-token logits [N, T, V] in float32 from normed states.

  cap: the shape's logit_cap.
  """
  tied = 'head' not in params
  w = (
    mesh.with_logical_sharding(params['embed'].T, None, 'vocab')
    if tied
    else params['head']
  )
  x = layers.dense(x_NTD, w, EMBED, ('vocab',)).astype(jnp.float32)
  return layers.soft_cap(x, cap)


def block(c: DecoderConfig, p: dict, x_NTD, way: LayerContext):
  """Applies one layer: x + attention, then x + MLP.

  Returns: [N, T, D], Routing of this layer (None without experts)
  """
  x_NTD, seen = _attention(c, p, x_NTD, way)
  x_NTD, routing = _feed_forward(c, p, x_NTD, way)
  return x_NTD, routing if seen is None else seen


@jax.named_scope('attention')
def _attention(c: DecoderConfig, p: dict, x_NTD, way: LayerContext):
  """Computes x + attention, and what the layer's `look` saw."""
  y = normed(c, p, 'attn_norm', x_NTD)
  q, k, v = (heads(c, p, y, way, name) for name in 'qkv')
  seen = way.look(q, k) if way.look else None
  y = way.attend(q, k, v)
  y = layers.dense(y, p['o'], ('heads', None), EMBED, way.rows)
  y = _biased(y, p, 'o_bias', c.out_bias)
  x_NTD += normed(c, p, 'attn_post_norm', y) if c.post_norm else y
  return x_NTD, seen


@jax.named_scope('mlp')
def _feed_forward(c: DecoderConfig, p: dict, x_NTD, way: LayerContext):
  """Computes x + MLP, and Routing."""
  y = normed(c, p, 'mlp_norm', x_NTD)
  routing = None
  if c.experts:
    live = jnp.ones(way.pos.shape, bool) if way.live is None else way.live
    how = moe.MoEConfig(c.top_k, c.unit_top_k, layers.ACTIVATIONS[c.activation])
    y, routing = moe.mix(how, p, layer_specs(c), y, live, way.rows)
  else:
    y = _mlp(c, p, y, way)
  y = normed(c, p, 'mlp_post_norm', y) if c.post_norm else y
  return x_NTD + y, routing


def _mlp(c: DecoderConfig, p: dict, x_NTD, way: LayerContext):
  """Computes down(act(gate x) * up x) (2002.05202)."""
  gate = layers.dense(x_NTD, p['gate'], EMBED, ('mlp',), way.rows)
  up = layers.dense(x_NTD, p['up'], EMBED, ('mlp',), way.rows)
  gate = _biased(gate, p, 'gate_bias', c.mlp_bias)
  up = _biased(up, p, 'up_bias', c.mlp_bias)
  y = layers.ACTIVATIONS[c.activation](gate) * up
  y = layers.dense(y, p['down'], ('mlp',), EMBED, way.rows)
  return _biased(y, p, 'down_bias', c.mlp_bias)


def normed(c: DecoderConfig, p: dict, name: str, x):
  return layers.rms_norm(p[name], x, c.eps, c.norm_offset)


def _biased(x, p: dict, name: str, there: bool):
  """Adds the bias [...] over the leading axes of x."""
  return x + p[name][None, None].astype(x.dtype) if there else x


def heads(c: DecoderConfig, p: dict, y_NTD, way: LayerContext, name: str):
  """Computes queries, keys or values (q, k, v): [N, T, heads, d]."""
  axis = 'heads' if name == 'q' else 'kv_heads'
  x = layers.dense(y_NTD, p[name], EMBED, (axis, None), way.rows)
  x = _biased(x, p, f'{name}_bias', c.bias)
  if name == 'v':
    return x
  if c.qk_norm:
    x = normed(c, p, f'{name}_norm', x)
  return rotary.rotate(c.rope(way.window), x, way.pos)


def forward(c: DecoderConfig, params, tokens_NT, seg_NT, look_NT=None):
  """Computes normed hidden states [N, T, D]; hidden[t] sees tokens <= t.

  Args:
    look_NT: bool, positions whose result is needed; elsewhere it is finite but
      arbitrary. None: all
  """
  name = kernel(c, seg_NT.shape[1])
  if look_NT is None or c.layers > UNROLL or name != 'xla':
    return routed(c, params, tokens_NT, seg_NT)[0]
  params, until_NT = gathered(c, params), layers.segment_until(seg_NT)
  pos, step = make_layer_fn(c, name, until_NT)
  x = embed(c, params, tokens_NT, pos)
  *under, top = each(c, params['layers'])
  for i, p in enumerate(under):
    x, _ = step(c.window(i))(x, p)
  window = c.window(c.layers - 1)
  mask = attention.row_mask(until_NT, window)
  x = _answer(c, top, x, LayerContext(pos, window, None), mask, look_NT)
  return normed(c, params, 'norm', x)


def routed(c: DecoderConfig, params, tokens_NT, seg_NT, look=None):
  """Runs `forward`, returning the routing too: [N, T, D], Routing.

  Routing covers tokens in segments >= 0; None without experts. With a look,
  (AttentionConfig, q, k, until) -> x, it is replaced by x [L, ...] of all
  layers.
  """
  name, until_NT = kernel(c, seg_NT.shape[1]), layers.segment_until(seg_NT)
  return forward_trees(c, params, tokens_NT, until_NT, name, look)


def forward_trees(
  c: DecoderConfig, params, tokens_NT, until_NT, name, look=None
):
  """Runs `routed` on rows of trees (layers.segment_until): [N, T, D], Routing.

  name: of the attention kernel (attention_kernels.choose_for_trees); 'splash'
    only supports segments
  """
  t, rows = tokens_NT.shape[1], ('batch', mesh.sharded_axis_or_none('time'))
  tokens_NT = mesh.pad_to_divisible(tokens_NT, 1, 'time')
  until_NT = mesh.pad_to_divisible(until_NT, 1, 'time', -1)
  apart = 'layers', 'embed', 'head'  # gathered by layer, by block, or never
  outer = {name: params[name] for name in specs(c) if name not in apart}
  outer = mesh.gather_params(outer, {name: specs(c)[name] for name in outer})
  width = mesh.sharded_axis_or_none('stored')
  outer['embed'] = mesh.with_logical_sharding(params['embed'], 'vocab', width)
  pos, step = make_layer_fn(c, name, until_NT, rows, look)
  tokens_NT = mesh.with_logical_sharding(tokens_NT, *rows)
  x = embed(c, outer, tokens_NT, pos, rows, width)
  x, routing = scan_layers(c, step, x, params['layers'])
  x = mesh.with_logical_sharding(
    normed(c, outer, 'norm', x), *layers.ROWS, None
  )
  return x[:, :t], routing


def kernel(c: DecoderConfig, tokens: int) -> str:
  """Chooses the attention kernel for rows of `tokens` tokens."""
  return attention_kernels.choose(
    c.attention, tokens, c.head_dim, c.dtype, c.score_cap
  )


def kernel_of_trees(c: DecoderConfig) -> str:
  """Chooses the attention kernel for rows of trees."""
  return attention_kernels.choose_for_trees(
    c.attention, c.head_dim, c.dtype, c.score_cap
  )


def make_layer_fn(
  c: DecoderConfig, name: str, until_NT, rows=layers.ROWS, look=None
):
  """Makes positions and window -> (x, stored parameters) -> x, Routing."""
  pos, live = layers.positions(until_NT), until_NT >= 0
  pos, live = (mesh.with_logical_sharding(x, *rows) for x in (pos, live))
  stored = layer_specs(c)

  def attending(window: int):
    if name == 'xla':
      mask = attention.row_mask(until_NT, window)
      return functools.partial(
        attention.attend, mask_NTS=mask, size=c.query_size, cap=c.score_cap
      )
    how = attention_kernels.config(window, c.query_size, c.score_cap)
    return functools.partial(
      attention_kernels.attend, name, how, until_NT=until_NT
    )

  attends = {w: attending(w) for w in set(c.windows) or {0}}

  def step(window: int):
    way = LayerContext(pos, window, attends[window], live, rows)
    if look:
      own = attention_kernels.config(window, c.query_size)
      way = way._replace(look=lambda q, k: look(own, q, k, until_NT))

    def run(x, p):
      return block(c, lora.gather(p, stored), x, way)

    return remat(c, run)

  return pos, step


def remat(c: DecoderConfig, layer):
  """Rematerialises the layer as c.remat says (config.REMAT)."""
  if c.remat == 'none':
    return layer
  keep = jax.checkpoint_policies
  # A chip's memory is what splash has least of: products are enough.
  answers = attention_kernels.is_answer
  policies = {
    'dots': keep.save_from_both_policies(
      keep.dots_with_no_batch_dims_saveable,
      functools.partial(answers, splash=False),
    ),
    'attention': answers,
    'layer': keep.nothing_saveable,
  }
  return jax.checkpoint(layer, policy=policies[c.remat])


def scan_layers(c: DecoderConfig, step, x, stacked):
  """Runs x through all layers; returns x and Routing of each [L, ...].

  A deep stack is a loop; with alternating windows each iteration is one period,
  and the remainder of the last period follows.
  """
  # Unrolled where it can be: slicing stacked parameters in a loop copies. While
  # gradients are added where they are made, no scan can be vmapped (JAX 0.10);
  # seeds that share a device are vmapped, and have no mesh of AXES.
  deep = c.layers > UNROLL
  if c.period == 1 and (deep or mesh.active()):
    return jax.lax.scan(step(c.window(0)), x, stacked, unroll=not deep)
  rounds = c.layers // c.period if c.layers > UNROLL else 0
  many = rounds * c.period

  def period(x, ps):
    return _one_by_one(c, step, x, ps, range(c.period))

  routing = []
  if rounds:
    loop = jax.tree.map(
      lambda a: a.reshape(rounds, c.period, *a.shape[1:]),
      _layers(stacked, 0, many),
    )
    x, of_loop = jax.lax.scan(period, x, loop)
    routing.append(
      jax.tree.map(lambda a: a.reshape(many, *a.shape[2:]), of_loop)
    )
  if many < c.layers:
    rest = _layers(stacked, many, c.layers)
    x, of_rest = _one_by_one(c, step, x, rest, range(many, c.layers))
    routing.append(of_rest)
  return x, jax.tree.map(lambda *a: jnp.concatenate(a), *routing)


def _one_by_one(c: DecoderConfig, step, x, stacked, indices):
  """Runs x through the layers of these indices, stacked[0] the first."""
  routing = []
  for i, index in enumerate(indices):
    x, new = step(c.window(index))(x, _layer(stacked, i))
    routing.append(new)
  return x, jax.tree.map(lambda *a: jnp.stack(a), *routing)


def _answer(
  c: DecoderConfig, p: dict, x_NTD, way: LayerContext, mask_NTS, look_NT
):
  """Runs the last layer: all keys and values, queries at look_NT only."""
  y = normed(c, p, 'attn_norm', x_NTD)
  k, v = (heads(c, p, y, way, name) for name in 'kv')

  def some(x, pos, mask):
    def attend(q, *_):
      return attention.attend(q, k, v, mask, c.query_size, c.score_cap)

    return block(c, p, x, way._replace(pos=pos, attend=attend))[0]

  xs = x_NTD, way.pos, mask_NTS
  return layers.map_chunks(some, lambda x, *_: x, xs, look_NT, CHUNK)


def gathered(c: DecoderConfig, params) -> dict:
  """Gathers the decoder's parameters, without extra heads."""
  own = specs(c)
  return lora.gather({name: params[name] for name in own}, own)


def each(c: DecoderConfig, stacked) -> tuple:
  """Splits a tree of stacked parameters into one tree per layer."""
  return tuple(_layer(stacked, i) for i in range(c.layers))


# Not by [...]: gradients that are added where they are made
# (model/microbatch.py) cannot go back through it in JAX 0.10.
def _layer(stacked, i: int):
  return jax.tree.map(
    lambda x: jax.lax.index_in_dim(x, i, keepdims=False), stacked
  )


def _layers(stacked, start: int, end: int):
  return jax.tree.map(lambda x: jax.lax.slice_in_dim(x, start, end), stacked)
