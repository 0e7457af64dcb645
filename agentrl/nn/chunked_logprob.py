"""Log-prob, entropy and Σ p² per token, without logits of the whole vocabulary.

With y = h·w_v, z = cap tanh(y / cap) (z = y without a cap), x = z / temperature
and p = softmax(x) over the V words:

  logp = x_a − L,   L = log Σ e^x
  entropy = −Σ p log p
  sum_sq_prob = Σ p²

Forwards and backwards go over blocks of `words` by `tokens`
(nn/vocab_blocks.py); backwards each block is computed again, from L alone:

  d/dx_v = b_logp (1[v = a] − p_v) − b_entropy p_v (log p_v + entropy)
           + 2 b_sum_sq_prob p_v (p_v − sum_sq_prob)

The gradient is written by hand, so there is no forward mode.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import vocab_blocks
from agentrl.nn.chunked_attention import place
from agentrl.nn.vocab_blocks import LOW, ROW, VocabBlock
from agentrl.types import Array

NAMES = ('logp', 'entropy', 'sum_sq_prob')


class LogprobConfig(NamedTuple):
  """Outputs to compute, and the block sizes."""

  needs: tuple[str, ...]  # among NAMES
  temperature: float = 1.0
  cap: float = 0.0  # soft cap of the logits; 0: none
  axis: int = 0  # of the head, along which the words lie
  tokens: int = 2048  # of a block
  words: int = 4096  # of a block

  @property
  def head(self) -> vocab_blocks.HeadConfig:
    return vocab_blocks.HeadConfig(self.axis, self.cap, self.temperature)


class Sums(NamedTuple):
  """Over the words seen so far, e = e^(x − top)."""

  top: Array  # [n] largest x
  total: Array  # [n] Σ e
  mean: Array  # [n] Σ e (x − top)
  square: Array  # [n] Σ e²
  chosen: Array  # [n] x of the token itself


@jax.named_scope('head')
def token_logprobs(
  c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT
) -> dict[str, Array]:
  """Returns {need: [N, T] f32}, nats; 0 where nothing is wanted.

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
  """Returns the logical axes of h, head, tokens and wanted."""
  rows = vocab_blocks.row_axes()
  return (*rows, None), vocab_blocks.head_axes(c.axis), rows, rows


def _forward(c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT):
  """Computes logp, entropy, sum_sq_prob and L of a device's rows: [N, T]."""
  rounds = vocab_blocks.deal(wanted_NT, c.tokens)
  blocks = vocab_blocks.cut(head, c.axis, c.words, h_NTD.dtype)
  rows = tuple(rounds.bring(x) for x in (h_NTD, tokens_NT))

  def add(words: VocabBlock, rows, sums: Sums) -> Sums:
    h, own = rows
    return _more(c, sums, h, own[:, None], words)

  zero = jnp.zeros(rounds.order.size, jnp.float32)
  sums = Sums(zero + LOW, zero, zero, zero, zero)
  sums = vocab_blocks.over_words(
    rounds, blocks.number, blocks.at, add, rows, sums
  )
  return tuple(rounds.back(x, wanted_NT.shape) for x in _outputs(_whole(sums)))


def _backward(c: LogprobConfig, h_NTD, head, tokens_NT, wanted_NT, *fixed_NT):
  """Computes cotangents of h and the head, of one device's rows and words."""
  rounds = vocab_blocks.deal(wanted_NT, c.tokens)
  blocks = vocab_blocks.cut(head, c.axis, c.words, h_NTD.dtype)
  rows = tuple(rounds.bring(x) for x in (tokens_NT, *fixed_NT))

  def slopes(j, words: VocabBlock):
    def slope(h, rows):
      own, *more = (x[:, None] for x in rows)
      return _slope(c, h, own, words, *more)

    return slope

  return vocab_blocks.pull(h_NTD, head, c.axis, rounds, blocks, slopes, rows)


def _more(c: LogprobConfig, sums: Sums, h, own, words: VocabBlock) -> Sums:
  """Adds another block of words to the sums."""
  x, _ = vocab_blocks.logits(c.head, h, words)
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
  """Rescales the sums to another top."""
  gap = sums.top - top
  scale = jnp.exp(gap)
  return sums._replace(
    top=top,
    total=sums.total * scale,
    mean=(sums.mean + sums.total * gap) * scale,
    square=sums.square * scale * scale,
  )


def _whole(sums: Sums) -> Sums:
  """Adds up the sums over the words of all devices."""
  sums = _rebased(sums, mesh.pmax(sums.top, 'vocab'))
  return Sums(sums.top, *(mesh.psum(x, 'vocab') for x in sums[1:]))


def _outputs(sums: Sums):
  """Returns logp, entropy, sum_sq_prob and L of the sums over all words."""
  log_total = jnp.log(sums.total)
  norm = sums.top + log_total
  entropy = log_total - sums.mean / sums.total
  return sums.chosen - norm, entropy, sums.square / sums.total**2, norm


def _slope(
  c: LogprobConfig, h, own, words: VocabBlock, norm, entropy, square, *bars
):
  """Returns d loss / d y [n, words], as h computes; all else is [n, 1]."""
  x, slope = vocab_blocks.logits(c.head, h, words)
  bar_logp, bar_entropy, bar_square = bars
  log_p = x - norm
  p = jnp.exp(log_p)
  dx = jnp.where(words.id == own, bar_logp, 0) - p * bar_logp
  if 'entropy' in c.needs:
    dx -= p * bar_entropy * (log_p + entropy)
  if 'sum_sq_prob' in c.needs:
    dx += 2 * p * bar_square * (p - square)
  return jnp.where(words.used, dx * slope, 0).astype(h.dtype)
