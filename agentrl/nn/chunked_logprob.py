"""Log-prob, entropy and Σ p² per token, without logits of the whole vocabulary.

With y = h·w_v, z = cap tanh(y / cap) (z = y without a cap), x = z / temperature
and p = softmax(x) over the V words:

  logp = x_a − L,   L = log Σ e^x
  entropy = −Σ p log p
  sum_sq_prob = Σ p²

Forwards and backwards go over blocks of `tokens` by `words`; backwards each
block is computed again, from L alone:

  d/dx_v = b_logp (1[v = a] − p_v) − b_entropy p_v (log p_v + entropy)
           + 2 b_sum_sq_prob p_v (p_v − sum_sq_prob)

Only wanted tokens cost anything: they are brought to the front. On a mesh every
device reads its own tokens through its own words, and sums over words are
added.
The gradient is written by hand, so there is no forward mode.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn.chunked_attention import place
from agentrl.types import Array

LOW = -1e30  # finite: a difference of two must not become NaN
NAMES = ('logp', 'entropy', 'sum_sq_prob')
ROW = ('batch', None)


class LogprobConfig(NamedTuple):
  """Outputs to compute, and the block sizes."""

  needs: tuple[str, ...]  # among NAMES
  temperature: float = 1.0
  cap: float = 0.0  # soft cap of the logits; 0: none
  axis: int = 0  # of the head, along which the words lie
  tokens: int = 2048  # of a block
  words: int = 4096  # of a block


class Sums(NamedTuple):
  """Over the words seen so far, e = e^(x − top)."""

  top: Array  # [n] largest x
  total: Array  # [n] Σ e
  mean: Array  # [n] Σ e (x − top)
  square: Array  # [n] Σ e²
  chosen: Array  # [n] x of the token itself


class VocabBlock(NamedTuple):
  """A block of the head."""

  w: Array  # [words, D] or [D, words]
  id: Array  # [1, words] i32
  used: Array  # [1, words] bool  False: was part of the block before
  start: Array  # [] i32  in what the device holds


def token_logprobs(
  c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT
) -> dict[str, Array]:
  """{need: [N, T] f32}, nats; 0 where nothing is wanted.

  Args:
    h_NTD: normed hidden states that predict the tokens
    head: [V, D] where c.axis is 0, [D, V] where it is 1
    tokens_NT: i32 in [0, V)
    wanted_NT: bool
  """
  chex.assert_rank([h_NTD, head, tokens_NT, wanted_NT], [3, 2, 2, 2])
  t = tokens_NT.shape[1]
  h, tokens, wanted = (
    mesh.pad_to_divisible(x, 1, 'time') for x in (h_NTD, tokens_NT, wanted_NT)
  )
  out = _read(c, *place((h, head, tokens, wanted), _axes(c)))
  return {
    name: mesh.with_logical_sharding(x, *ROW)[:, :t] for name, x in out.items()
  }


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _read(c: LogprobConfig, *rows) -> dict[str, Array]:
  return _answer(c, *rows)[0]


def _answer(c: LogprobConfig, *rows):
  forward = functools.partial(_forward, c)
  axes = _axes(c)
  sums = mesh.shard_map(forward, axes, (axes[-1],) * 4)(*rows)
  out = dict(zip((*NAMES, 'norm'), sums, strict=True))
  return {name: out[name] for name in c.needs}, (rows, out)


def _pull(c: LogprobConfig, saved, bar: dict):
  rows, out = saved
  zero = jnp.zeros_like(out['norm'])
  more = (
    *(out[name] for name in ('norm', 'entropy', 'sum_sq_prob')),
    *(bar.get(name, zero) for name in NAMES),
  )
  backward = functools.partial(_backward, c)
  axes = _axes(c)
  pull = mesh.shard_map(backward, (*axes, *axes[-1:] * 6), axes[:2])
  return *pull(*rows, *more), None, None


_read.defvjp(_answer, _pull)


def _axes(c: LogprobConfig):
  """Logical axes of h, head, tokens and wanted."""
  head = ('vocab', 'embed') if c.axis == 0 else ('embed', 'vocab')
  rows = ('batch', mesh.sharded_axis_or_none('time'))
  return (*rows, None), head, rows, rows


def _forward(c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT):
  """logp, entropy, sum_sq_prob and L of one device's rows, [N, T] each."""
  h, tokens = h_NTD.reshape(-1, h_NTD.shape[-1]), tokens_NT.reshape(-1)
  deal, rounds, size = _deal(c, wanted_NT)
  cut, blocks = _cut(c, head)

  def answer(i, out):
    at = deal(i)
    some, own = _take(h, at), _take(tokens, at)[:, None]
    zero = jnp.zeros(size, jnp.float32)
    sums = Sums(zero + LOW, zero, zero, zero, zero)
    add = lambda j, sums: _more(c, sums, some, own, cut(j))  # noqa: E731
    values = _outputs(_whole(jax.lax.fori_loop(0, blocks, add, sums)))
    return tuple(
      x.at[at].set(y, mode='drop') for x, y in zip(out, values, strict=True)
    )

  zeros = (jnp.zeros(tokens.shape, jnp.float32),) * 4
  out = jax.lax.fori_loop(0, rounds, answer, zeros)
  return tuple(x.reshape(tokens_NT.shape) for x in out)


def _backward(c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT, *known_NT):
  """Cotangents of h and the head, of one device's rows and words."""
  h, tokens = h_NTD.reshape(-1, h_NTD.shape[-1]), tokens_NT.reshape(-1)
  residuals = [x.reshape(-1) for x in known_NT]
  deal, rounds, _ = _deal(c, wanted_NT)
  cut, blocks = _cut(c, head)
  to_h, to_w = _PULLS[c.axis]

  def over_words(j, carry):
    dh, dhead = carry
    words = cut(j)

    def over_tokens(i, carry):
      dh, dw = carry
      at = deal(i)
      some, own = _take(h, at), _take(tokens, at)[:, None]
      dy = _slope(
        c, some, own, words, *(_take(x, at)[:, None] for x in residuals)
      )
      dh = dh.at[at].add(_dot(to_h, dy, words.w), mode='drop')
      return dh, dw + _dot(to_w, dy, some)

    dw = jnp.zeros(words.w.shape, jnp.float32)
    dh, dw = jax.lax.fori_loop(0, rounds, over_tokens, (dh, dw))
    return dh, _add_at(dhead, dw, words.start, c.axis)

  zeros = jnp.zeros(h.shape, jnp.float32), jnp.zeros(head.shape, jnp.float32)
  dh, dhead = jax.lax.fori_loop(0, blocks, over_words, zeros)
  dh, dhead = mesh.psum(dh, 'vocab'), mesh.psum(dhead, 'batch', 'time')
  return dh.reshape(h_NTD.shape).astype(h.dtype), dhead.astype(head.dtype)


_DOT = ('nd,vd->nv', 'nd,dv->nv')
_PULLS = (('nv,vd->nd', 'nv,nd->vd'), ('nv,dv->nd', 'nv,nd->dv'))


def _dot(formula: str, a, b):
  """Factors as a computes, sums in float32."""
  b = b.astype(a.dtype)
  return jnp.einsum(formula, a, b, preferred_element_type=jnp.float32)


def _deal(c: LogprobConfig, wanted_NT):
  """i -> the tokens of round i, the number of rounds, that of tokens in one.

  Wanted tokens alone; what fills the last round up is out of range.
  """
  wanted = wanted_NT.reshape(-1)
  size = min(c.tokens, wanted.size)
  count = jnp.sum(wanted, dtype=jnp.int32)
  order = jnp.argsort(~wanted, stable=True)
  order = jnp.where(jnp.arange(wanted.size) < count, order, wanted.size)
  order = jnp.pad(order, (0, -wanted.size % size), constant_values=wanted.size)

  def deal(i):
    return jax.lax.dynamic_slice_in_dim(order, i * size, size)

  return deal, (count + size - 1) // size, size


def _take(x, at):
  """x[at]; 0 where that is out of range."""
  return x.at[at].get(mode='fill', fill_value=0)


def _cut(c: LogprobConfig, head):
  """j -> block j of the device's words, the number of blocks.

  All are of one size: the last reaches back into the one before it.
  """
  held = head.shape[c.axis]
  size = min(c.words, held)
  first = mesh.axis_index('vocab') * held

  def cut(j) -> VocabBlock:
    start = jnp.minimum(j * size, held - size)
    at = (start + jnp.arange(size, dtype=jnp.int32))[None]
    w = jax.lax.dynamic_slice_in_dim(head, start, size, c.axis)
    return VocabBlock(w, first + at, at >= j * size, start)

  return cut, -(-held // size)


def _add_at(x, y, start, axis: int):
  """x with y added from start on."""
  old = jax.lax.dynamic_slice_in_dim(x, start, y.shape[axis], axis)
  return jax.lax.dynamic_update_slice_in_dim(x, old + y, start, axis)


def _logits(c: LogprobConfig, h, words: VocabBlock):
  """x [n, words], and dx/dy."""
  z = _dot(_DOT[c.axis], h, words.w)
  slope = jnp.float32(1 / c.temperature)
  if c.cap:
    squashed = jnp.tanh(z / c.cap)
    z, slope = c.cap * squashed, slope * (1 - jnp.square(squashed))
  return jnp.where(words.used, z / c.temperature, LOW), slope


def _more(c: LogprobConfig, sums: Sums, h, own, words: VocabBlock) -> Sums:
  """The sums with those over another block of words."""
  x, _ = _logits(c, h, words)
  old = sums.top
  top = jnp.maximum(old, jnp.max(x, axis=1))
  mine = words.used & (words.id == own)
  sums = _rebased(sums, top)
  low = x - top[:, None]
  e = jnp.exp(low)
  out = sums._replace(
    total=sums.total + jnp.sum(e, axis=1),
    chosen=sums.chosen + jnp.sum(jnp.where(mine, x, 0), axis=1),
  )
  if 'entropy' in c.needs:
    out = out._replace(mean=out.mean + jnp.sum(e * low, axis=1))
  if 'sum_sq_prob' in c.needs:
    out = out._replace(square=out.square + jnp.sum(e * e, axis=1))
  return out


def _rebased(sums: Sums, top) -> Sums:
  """The sums below another top."""
  gap = sums.top - top
  scale = jnp.exp(gap)
  return sums._replace(
    top=top,
    total=sums.total * scale,
    mean=(sums.mean + sums.total * gap) * scale,
    square=sums.square * scale * scale,
  )


def _whole(sums: Sums) -> Sums:
  """The sums over the words of all devices."""
  sums = _rebased(sums, mesh.pmax(sums.top, 'vocab'))
  return Sums(sums.top, *(mesh.psum(x, 'vocab') for x in sums[1:]))


def _outputs(sums: Sums):
  """logp, entropy, sum_sq_prob and L of the sums over all words."""
  log_total = jnp.log(sums.total)
  norm = sums.top + log_total
  entropy = log_total - sums.mean / sums.total
  return sums.chosen - norm, entropy, sums.square / sums.total**2, norm


def _slope(
  c: LogprobConfig, h, own, words: VocabBlock, norm, entropy, square, *bars
):
  """d loss / d y [n, words], as h computes; all else is [n, 1]."""
  x, slope = _logits(c, h, words)
  bar_logp, bar_entropy, bar_square = bars
  log_p = x - norm
  p = jnp.exp(log_p)
  dx = jnp.where(words.id == own, bar_logp, 0) - p * bar_logp
  if 'entropy' in c.needs:
    dx -= p * bar_entropy * (log_p + entropy)
  if 'sum_sq_prob' in c.needs:
    dx += 2 * p * bar_square * (p - square)
  return jnp.where(words.used, dx * slope, 0).astype(h.dtype)
