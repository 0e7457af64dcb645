"""Blocks of the vocabulary by blocks of tokens: logits that are never whole.

What reads all words of each token (nn/chunked_logprob.py) or compares two heads
over all words (nn/chunked_divergence.py) goes over blocks of `tokens` by
`words`, forwards and backwards, and computes each block again where it is
needed. Only wanted tokens cost anything: they are brought to the front. On a
mesh every device reads its own tokens through its own words; sums over words
are added. The head stays as it is stored: each block of words is gathered once,
before all tokens are read through it, and the block's gradient is dealt out
again, so that neither is ever whole on a device.

With y = h·w_v, the logit of word v is

  x = z / temperature,   z = cap tanh(y / cap)   (z = y without a cap)
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.types import Array

LOW = -1e30  # finite: a difference of two must not become NaN
ROW = ('batch', None)


class HeadConfig(NamedTuple):
  """Path from a hidden state to logits."""

  axis: int = 0  # of the head, along which the words lie
  cap: float = 0.0  # soft cap of the logits; 0: none
  temperature: float = 1.0


class VocabBlock(NamedTuple):
  """A block of the head."""

  w: Array  # [words, D] or [D, words]
  id: Array  # [1, words] i32
  used: Array  # [1, words] bool  False: was part of the block before
  start: Array  # [] i32  in what the device holds


class Rounds(NamedTuple):
  """Wanted tokens of a device, block by block."""

  at: Callable  # i -> [size] i32, tokens of round i; the rest is out of range
  number: Array  # [] i32  rounds
  size: int


class VocabBlocks(NamedTuple):
  """Words of a device, block by block."""

  at: Callable  # j -> VocabBlock
  number: int


def row_axes() -> tuple[str | None, ...]:
  """Logical axes of [N, T]."""
  return ('batch', mesh.sharded_axis_or_none('time'))


def head_axes(axis: int) -> tuple[str, str]:
  """Logical axes of a head as stored, whose words lie along `axis`."""
  return ('vocab', 'stored') if axis == 0 else ('stored', 'vocab')


def deal(wanted_NT, tokens: int) -> Rounds:
  """Rounds of up to `tokens` tokens, of the wanted ones alone."""
  wanted = wanted_NT.reshape(-1)
  size = min(tokens, wanted.size)
  count = jnp.sum(wanted, dtype=jnp.int32)
  order = jnp.argsort(~wanted, stable=True)
  order = jnp.where(jnp.arange(wanted.size) < count, order, wanted.size)
  order = jnp.pad(order, (0, -wanted.size % size), constant_values=wanted.size)

  def at(i):
    return jax.lax.dynamic_slice_in_dim(order, i * size, size)

  return Rounds(at, (count + size - 1) // size, size)


def cut(head, axis: int, words: int, dtype) -> VocabBlocks:
  """Blocks of up to `words` words, whole and of this dtype.

  All are of one size: the last reaches back into the one before it.
  """
  held = head.shape[axis]
  size = min(words, held)
  first = mesh.axis_index('vocab') * held

  def block(j) -> VocabBlock:
    start = jnp.minimum(j * size, held - size)
    at = (start + jnp.arange(size, dtype=jnp.int32))[None]
    w = jax.lax.dynamic_slice_in_dim(head, start, size, axis)
    w = mesh.all_gather(w.astype(dtype), 'stored', 1 - axis)
    return VocabBlock(w, first + at, at >= j * size, start)

  return VocabBlocks(block, -(-held // size))


def flat(x_NT):
  """[N, T, ...] -> [N T, ...]."""
  return x_NT.reshape(-1, *x_NT.shape[2:])


def take(x, at):
  """x[at]; 0 where that is out of range."""
  return x.at[at].get(mode='fill', fill_value=0)


def logits(c: HeadConfig, h, words: VocabBlock):
  """x [n, words], and dx/dy."""
  z = _dot(_DOT[c.axis], h, words.w)
  slope = jnp.float32(1 / c.temperature)
  if c.cap:
    squashed = jnp.tanh(z / c.cap)
    z, slope = c.cap * squashed, slope * (1 - jnp.square(squashed))
  return jnp.where(words.used, z / c.temperature, LOW), slope


def over_words(
  rounds: Rounds, number: int, block: Callable, add: Callable, sums
):
  """Sums over all words: a tree of [N T], of the wanted tokens.

  Args:
    number: of blocks
    block: j -> block j of the words, read once for all tokens
    add: (block j, tokens [n] i32, their sums [n]) -> the sums with block j
    sums: to begin with
  """

  def of_block(j, sums):
    words = block(j)

    def of_tokens(i, sums):
      at = rounds.at(i)
      more = add(words, at, jax.tree.map(lambda x: take(x, at), sums))
      return jax.tree.map(lambda x, y: x.at[at].set(y, mode='drop'), sums, more)

    return jax.lax.fori_loop(0, rounds.number, of_tokens, sums)

  return jax.lax.fori_loop(0, number, of_block, sums)


def where_wanted(wanted_NT, *values) -> tuple[Array, ...]:
  """Values [N T] of the wanted tokens, 0 elsewhere: [N, T] each."""
  return tuple(
    jnp.where(wanted_NT, x.reshape(wanted_NT.shape), 0) for x in values
  )


def pull(h_NTD, head, axis: int, rounds: Rounds, blocks: VocabBlocks, slopes):
  """Cotangents of h and the head, of one device's rows and words.

  Args:
    slopes: (j, block j) -> (tokens [n] i32, their h [n, D]) -> d loss / d y
      [n, words], of the numbers that h has
  """
  h = flat(h_NTD)
  width = h.shape[1]

  def of_block(j, carry):
    dh, dhead = carry
    words = blocks.at(j)
    slope = slopes(j, words)

    def of_tokens(i, carry):
      dh, dw = carry
      at = rounds.at(i)
      some = take(h, at)
      dy = slope(at, some)
      dh = dh.at[at].add(_dot(_TO_H[axis], dy, words.w), mode='drop')
      return dh, dw + _dot('nv,nd->dv', dy, some)

    # The width leads: along it TPU's compiler sums and deals out at once.
    dw = jnp.zeros((width, words.w.shape[axis]), jnp.float32)
    dh, dw = jax.lax.fori_loop(0, rounds.number, of_tokens, (dh, dw))
    dw = mesh.psum_scatter(dw, 'stored')
    return dh, _add_at(dhead, dw if axis else dw.T, words.start, axis)

  zeros = jnp.zeros(h.shape, jnp.float32), jnp.zeros(head.shape, jnp.float32)
  dh, dhead = jax.lax.fori_loop(0, blocks.number, of_block, zeros)
  dh, dhead = mesh.psum(dh, 'vocab'), mesh.psum(dhead, 'copies')
  return dh.reshape(h_NTD.shape).astype(h.dtype), dhead.astype(head.dtype)


_DOT = ('nd,vd->nv', 'nd,dv->nv')
_TO_H = ('nv,vd->nd', 'nv,dv->nd')


def _dot(formula: str, a, b):
  """Factors as a computes, sums in float32."""
  b = b.astype(a.dtype)
  return jnp.einsum(formula, a, b, preferred_element_type=jnp.float32)


def _add_at(x, y, start, axis: int):
  """x with y added from start on."""
  old = jax.lax.dynamic_slice_in_dim(x, start, y.shape[axis], axis)
  return jax.lax.dynamic_update_slice_in_dim(x, old + y, start, axis)
