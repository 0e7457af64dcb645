"""Divergence of a student from a teacher over all words, per token, in blocks.

With p = softmax(x) of the student, q = softmax(u) of the teacher, over the same
V words, and m = (1 − β) p + β q:

  β = 0       KL(q ‖ p) = Σ q (log q − log p)                         forward
  β = 1       KL(p ‖ q) = Σ p (log p − log q)                         reverse
  0 < β < 1   β KL(q ‖ m) + (1 − β) KL(p ‖ m)          (generalised Jensen)

in nats (GKD, arXiv 2306.13649; `generalized_jsd_loss` of TRL). Jensen goes to 0
at both ends, as β KL(q ‖ p) and (1 − β) KL(p ‖ q) do: the ends are these limits
without their factors.

Forwards and backwards go over blocks of `tokens` by `words` of both heads
(nn/vocab_blocks.py). A KL is read in one pass, from sums that are rebased when
a larger logit comes, with L_p = log Σ e^x and L_q = log Σ e^u:

  KL(p ‖ q) = Σ p (x − u) − L_p + L_q

Jensen needs L_p and L_q before it can mix p and q: two passes. Backwards each
block is computed again, from L_p, L_q and one K for each token:

  β = 0       d/dx_v = p_v − q_v
  β = 1       d/dx_v = p_v (log p_v − log q_v − K),  K = KL(p ‖ q)
  0 < β < 1   d/dx_v = (1 − β) p_v (log p_v − log m_v − K),  K = KL(p ‖ m)

For Jensen: d/dp_v = (1 − β) (log p_v + 1 − log m_v) − (1 − β) (β q_v +
(1 − β) p_v) / m_v, whose last factor is 1, so that (1 − β) (log p_v − log m_v)
is left; the softmax takes its mean under p away. The teacher gets no gradient.
The gradient is written by hand, so there is no forward mode.
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.nn import vocab_blocks
from agentrl.nn.chunked_attention import place
from agentrl.nn.vocab_blocks import LOW, ROW, HeadConfig, VocabBlock
from agentrl.types import Array


class DivergenceConfig(NamedTuple):
  """Which divergence, of which heads, and the block sizes."""

  beta: float = 1.0  # 0 forward KL, 1 reverse KL, Jensen in between
  student: HeadConfig = HeadConfig()
  teacher: HeadConfig = HeadConfig()
  tokens: int = 2048  # of a block
  words: int = 4096  # of a block


class PairSums(NamedTuple):
  """Over the words seen so far, e = e^(x − top), f = e^(u − high)."""

  top: Array  # [n] largest x
  total: Array  # [n] Σ e
  high: Array  # [n] largest u
  amount: Array  # [n] Σ f
  gap: Array  # [n] Σ e ((x − top) − (u − high)), of KL(p ‖ q)
  lag: Array  # [n] Σ f ((u − high) − (x − top)), of KL(q ‖ p)


def token_divergence(
  c: DivergenceConfig, h_NTD, head, teacher_h_NTE, teacher_head, wanted_NT
) -> Array:
  """Computes the divergence of each token [N, T] f32, nats; 0 if unwanted.

  Args:
    h_NTD: the student's normed hidden states that predict the tokens
    head: [V, D] where c.student.axis is 0, [D, V] where it is 1
    teacher_h_NTE, teacher_head: the teacher's; E may differ from D
    wanted_NT: bool
  Raises: ValueError for a β outside [0, 1], or vocabularies of two sizes.
  """
  ranks = [3, 2, 3, 2, 2]
  chex.assert_rank([h_NTD, head, teacher_h_NTE, teacher_head, wanted_NT], ranks)
  chex.assert_equal_shape_prefix([h_NTD, teacher_h_NTE, wanted_NT], 2)
  _check(c, head.shape[c.student.axis], teacher_head.shape[c.teacher.axis])
  h, teacher_h, wanted = (
    mesh.pad_to_divisible(x, 1, 'time')
    for x in (h_NTD, teacher_h_NTE, wanted_NT)
  )
  args = h, head, teacher_h, teacher_head, wanted
  out = _read(c, *place(args, _axes(c)))
  return mesh.with_logical_sharding(out, *ROW)[:, : wanted_NT.shape[1]]


def _check(c: DivergenceConfig, words: int, teacher_words: int) -> None:
  if not 0 <= c.beta <= 1:
    raise ValueError(
      'beta must be 0 (forward KL), 1 (reverse KL) or in between (Jensen), got'
      f' {c.beta}'
    )
  if words != teacher_words:
    raise ValueError(
      f"the teacher's vocabulary must have the student's {words} tokens, got"
      f' {teacher_words}; choose a teacher with the same tokenizer'
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _read(c: DivergenceConfig, *rows) -> Array:
  return _answer(c, *rows)[0]


def _answer(c: DivergenceConfig, *rows):
  axes = _axes(c)
  forward = functools.partial(_forward, c)
  out, *fixed = mesh.shard_map(forward, axes, (axes[-1],) * 4)(*rows)
  return out, (rows, fixed)


def _pull(c: DivergenceConfig, saved, bar):
  rows, fixed = saved
  axes = _axes(c)
  backward = functools.partial(_backward, c)
  pull = mesh.shard_map(backward, (*axes, *axes[-1:] * 4), axes[:2])
  return *pull(*rows, *fixed, bar), None, None, None


_read.defvjp(_answer, _pull)


def _axes(c: DivergenceConfig):
  """Returns logical axes of both h and heads, and of wanted."""
  rows = vocab_blocks.row_axes()
  heads = (vocab_blocks.head_axes(x.axis) for x in (c.student, c.teacher))
  student, teacher = heads
  return (*rows, None), student, (*rows, None), teacher, rows


def _forward(c: DivergenceConfig, h_NTD, head, teacher_h_NTE, goal, wanted_NT):
  """Computes divergence, K, L_p and L_q of a device's rows, [N, T] each."""
  rounds = vocab_blocks.deal(wanted_NT, c.tokens)
  blocks = vocab_blocks.cut(head, c.student.axis, c.words, h_NTD.dtype)
  goals = vocab_blocks.cut(goal, c.teacher.axis, c.words, teacher_h_NTE.dtype)
  rows = tuple(rounds.bring(x) for x in (h_NTD, teacher_h_NTE))
  over = functools.partial(
    vocab_blocks.over_words,
    rounds,
    blocks.number,
    lambda j: (blocks.at(j), goals.at(j)),
  )

  def both(words, h, teacher_h):
    x, _ = vocab_blocks.logits(c.student, h, words[0])
    return x, vocab_blocks.logits(c.teacher, teacher_h, words[1])[0]

  def add(words, rows, sums: PairSums) -> PairSums:
    return _more(c.beta, sums, *both(words, *rows))

  def mix(words, rows, parts):
    x, u = both(words, *rows[:2])
    norm, level = (y[:, None] for y in rows[2:])
    log_p, log_q = x - norm, u - level
    log_m = _log_mixture(c.beta, log_p, log_q)
    # A block's part of KL(q ‖ m) and of KL(p ‖ m), [n] each.
    new = tuple(
      jnp.sum(jnp.exp(y) * (y - log_m), axis=1) for y in (log_q, log_p)
    )
    return jax.tree.map(jnp.add, parts, new)

  zero = jnp.zeros(rounds.order.size, jnp.float32)
  first = PairSums(zero + LOW, zero, zero + LOW, zero, zero, zero)
  sums = _whole(over(add, rows, first))
  norm = sums.top + jnp.log(sums.total)
  level = sums.high + jnp.log(sums.amount)
  if c.beta in (0, 1):
    value = of_student = _end(c.beta, sums)
  else:
    parts = over(mix, (*rows, norm, level), (zero, zero))
    of_teacher, of_student = (mesh.psum(x, 'vocab') for x in parts)
    value = c.beta * of_teacher + (1 - c.beta) * of_student
  return tuple(
    rounds.back(x, wanted_NT.shape) for x in (value, of_student, norm, level)
  )


def _backward(
  c: DivergenceConfig,
  h_NTD,
  head,
  teacher_h_NTE,
  goal,
  wanted_NT,
  *fixed_NT,
):
  """Computes cotangents of the student's h and head on one device."""
  rounds = vocab_blocks.deal(wanted_NT, c.tokens)
  blocks = vocab_blocks.cut(head, c.student.axis, c.words, h_NTD.dtype)
  goals = vocab_blocks.cut(goal, c.teacher.axis, c.words, teacher_h_NTE.dtype)
  rows = tuple(rounds.bring(x) for x in (teacher_h_NTE, *fixed_NT))

  def slopes(j, words: VocabBlock):
    goal_words = goals.at(j)

    def slope(h, rows):
      teacher_h, *fixed = rows
      x, dx_dy = vocab_blocks.logits(c.student, h, words)
      u, _ = vocab_blocks.logits(c.teacher, teacher_h, goal_words)
      center, norm, level, bar = (y[:, None] for y in fixed)
      dx = bar * _slope(c.beta, x - norm, u - level, center)
      return jnp.where(words.used, dx * dx_dy, 0).astype(h.dtype)

    return slope

  return vocab_blocks.pull(
    h_NTD, head, c.student.axis, rounds, blocks, slopes, rows
  )


def _more(beta: float, sums: PairSums, x, u) -> PairSums:
  """Adds another block of words to the sums, x and u [n, words]."""
  top = jnp.maximum(sums.top, jnp.max(x, axis=1))
  high = jnp.maximum(sums.high, jnp.max(u, axis=1))
  sums = _rebased(sums, top, high)
  x, u = x - top[:, None], u - high[:, None]
  e, f = jnp.exp(x), jnp.exp(u)
  out = sums._replace(
    total=sums.total + jnp.sum(e, axis=1),
    amount=sums.amount + jnp.sum(f, axis=1),
  )
  if beta == 1:
    return out._replace(gap=out.gap + jnp.sum(e * (x - u), axis=1))
  if beta == 0:
    return out._replace(lag=out.lag + jnp.sum(f * (u - x), axis=1))
  return out


def _rebased(sums: PairSums, top, high) -> PairSums:
  """Rebases the sums to new tops."""
  rise, climb = sums.top - top, sums.high - high
  e, f = jnp.exp(rise), jnp.exp(climb)
  return PairSums(
    top=top,
    total=sums.total * e,
    high=high,
    amount=sums.amount * f,
    gap=(sums.gap + sums.total * (rise - climb)) * e,
    lag=(sums.lag + sums.amount * (climb - rise)) * f,
  )


def _whole(sums: PairSums) -> PairSums:
  """Reduces the sums over the words of all devices."""
  top, high = (mesh.pmax(x, 'vocab') for x in (sums.top, sums.high))
  sums = _rebased(sums, top, high)
  total, amount, gap, lag = (
    mesh.psum(x, 'vocab') for x in (sums.total, sums.amount, sums.gap, sums.lag)
  )
  return PairSums(top, total, high, amount, gap, lag)


def _end(beta: float, sums: PairSums) -> Array:
  """Computes KL(q ‖ p) for β = 0, KL(p ‖ q) for β = 1."""
  ahead = jnp.log(sums.total) - jnp.log(sums.amount)
  if beta == 0:
    return sums.lag / sums.amount + ahead
  return sums.gap / sums.total - ahead


def _log_mixture(beta: float, log_p, log_q):
  """Computes log((1 − β) p + β q) for 0 < β < 1."""
  return jnp.logaddexp(
    log_p + np.float32(np.log1p(-beta)), log_q + np.float32(np.log(beta))
  )


def _slope(beta: float, log_p, log_q, center):
  """Computes d divergence / d x [n, words]; center is K, [n, 1]."""
  p = jnp.exp(log_p)
  if beta == 0:
    return p - jnp.exp(log_q)
  if beta == 1:
    return p * (log_p - log_q - center)
  log_m = _log_mixture(beta, log_p, log_q)
  return (1 - beta) * p * (log_p - log_m - center)
