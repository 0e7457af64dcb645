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
from agentrl.runtime import precision
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
  start: Array  # [] i32  in what the device holds
  fresh: Array  # [] i32  words before this were part of the block before
  first: Array | int  # [] i32  of the device's words in the vocabulary
  size: int  # words

  # Not arrays of the block: made where they are used, they cost nothing.
  @property
  def _at(self):
    return (self.start + jnp.arange(self.size, dtype=jnp.int32))[None]

  @property
  def id(self):
    """[1, words] i32"""
    return self.first + self._at

  @property
  def used(self):
    """[1, words] bool, False: was part of the block before."""
    return self._at >= self.fresh


class Rounds(NamedTuple):
  """Wanted tokens of a device, brought to the front and read round by round."""

  order: Array  # [M] i32  of its tokens [N T]; out of range behind the wanted
  number: Array  # [] i32  rounds
  size: int  # tokens of a round

  def bring(self, x_NT):
    """Brings [N, T, ...] into this order, [M, ...]; 0 behind the wanted."""
    x = x_NT.reshape(-1, *x_NT.shape[2:])
    return x.at[self.order].get(mode='fill', fill_value=0)

  def back(self, x, shape: tuple[int, ...]):
    """Puts what was brought from [N, T, ...] back where it was; 0 elsewhere."""
    zeros = jnp.zeros((shape[0] * shape[1], *x.shape[1:]), x.dtype)
    return zeros.at[self.order].set(x, mode='drop').reshape(shape)

  def take(self, rows, i):
    """Takes round i of a tree of [M, ...]."""
    return jax.tree.map(
      lambda x: jax.lax.dynamic_slice_in_dim(x, i * self.size, self.size), rows
    )

  def put(self, rows, part, i):
    """Puts another round i into the rows."""
    return jax.tree.map(
      lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, i * self.size, 0),
      rows,
      part,
    )


class VocabBlocks(NamedTuple):
  """Words of a device, block by block."""

  at: Callable  # j -> VocabBlock
  number: int


def row_axes() -> tuple[str | None, ...]:
  """Returns the logical axes of [N, T]."""
  return ('batch', mesh.sharded_axis_or_none('time'))


def head_axes(axis: int) -> tuple[str, str]:
  """Returns logical axes of a stored head, whose words lie along `axis`."""
  return ('vocab', 'stored') if axis == 0 else ('stored', 'vocab')


def deal(wanted_NT, tokens: int) -> Rounds:
  """Deals rounds of up to `tokens` tokens, of the wanted ones alone."""
  wanted = wanted_NT.reshape(-1)
  size = min(tokens, wanted.size)
  count = jnp.sum(wanted, dtype=jnp.int32)
  order = jnp.argsort(~wanted, stable=True)
  order = jnp.where(jnp.arange(wanted.size) < count, order, wanted.size)
  order = jnp.pad(order, (0, -wanted.size % size), constant_values=wanted.size)
  return Rounds(order, (count + size - 1) // size, size)


def cut(head, axis: int, words: int, dtype) -> VocabBlocks:
  """Cuts blocks of up to `words` words, whole and of this dtype.

  All are of one size: the last reaches back into the one before it.
  """
  held = head.shape[axis]
  size = min(words, held)
  first = mesh.axis_index('vocab') * held

  def block(j) -> VocabBlock:
    start = jnp.minimum(j * size, held - size)
    w = jax.lax.dynamic_slice_in_dim(head, start, size, axis)
    w = mesh.all_gather(w.astype(dtype), 'stored', 1 - axis)
    return VocabBlock(w, start, j * size, first, size)

  return VocabBlocks(block, -(-held // size))


def logits(c: HeadConfig, h, words: VocabBlock):
  """Returns x [n, words], and dx/dy."""
  z = _dot(_DOT[c.axis], h, words.w)
  slope = jnp.float32(1 / c.temperature)
  if c.cap:
    squashed = jnp.tanh(z / c.cap)
    z, slope = c.cap * squashed, slope * (1 - jnp.square(squashed))
  return jnp.where(words.used, z / c.temperature, LOW), slope


def over_words(
  rounds: Rounds, number: int, block: Callable, add: Callable, rows, sums
):
  """Sums wanted tokens over all words, a tree of [M].

  Args:
    number: of blocks
    block: j -> block j of the words, read once for all tokens
    add: (block j, rows of a round, their sums) -> the sums with block j
    rows: tree of [M, ...], brought
    sums: to begin with
  """

  def of_block(j, sums):
    words = block(j)

    def of_round(i, sums):
      new = add(words, rounds.take(rows, i), rounds.take(sums, i))
      return rounds.put(sums, new, i)

    return jax.lax.fori_loop(0, rounds.number, of_round, sums)

  return jax.lax.fori_loop(0, number, of_block, sums)


def pull(
  h_NTD, head, axis: int, rounds: Rounds, blocks: VocabBlocks, slopes, rows
):
  """Computes cotangents of h and the head, of one device's rows and words.

  Args:
    slopes: (j, block j) -> (h [n, D], rows of a round) -> d loss / d y
      [n, words], of the numbers that h has
    rows: tree of [M, ...], brought
  """
  h = rounds.bring(h_NTD)

  def of_block(j, carry):
    dh, dhead = carry
    words = blocks.at(j)
    slope = slopes(j, words)

    def of_round(i, carry):
      dh, dw = carry
      some = rounds.take(h, i)
      dy = slope(some, rounds.take(rows, i))
      more = rounds.take(dh, i) + _dot(_TO_H[axis], dy, words.w)
      return rounds.put(dh, more, i), dw + _dot('nv,nd->dv', dy, some)

    # The width leads: along it TPU's compiler sums and deals out at once.
    dw = jnp.zeros((h.shape[1], words.w.shape[axis]), jnp.float32)
    dh, dw = jax.lax.fori_loop(0, rounds.number, of_round, (dh, dw))
    dw = mesh.psum_scatter(dw, 'stored')
    return dh, _add_at(dhead, dw if axis else dw.T, words.start, axis)

  zeros = jnp.zeros(h.shape, jnp.float32), jnp.zeros(head.shape, jnp.float32)
  dh, dhead = jax.lax.fori_loop(0, blocks.number, of_block, zeros)
  dh, dhead = mesh.psum(dh, 'vocab'), mesh.psum(dhead, 'copies')
  dh = rounds.back(dh, h_NTD.shape)
  return dh.astype(h.dtype), dhead.astype(head.dtype)


_DOT = ('nd,vd->nv', 'nd,dv->nv')
_TO_H = ('nv,vd->nd', 'nv,dv->nd')


def _dot(formula: str, a, b):
  """Multiplies factors as a computes, and sums in float32."""
  b = b.astype(a.dtype)
  return precision.einsum(formula, a, b, preferred_element_type=jnp.float32)


def _add_at(x, y, start, axis: int):
  """Adds y to x from start on."""
  old = jax.lax.dynamic_slice_in_dim(x, start, y.shape[axis], axis)
  return jax.lax.dynamic_update_slice_in_dim(x, old + y, start, axis)
