"""Sums and neighbours along a trajectory, by turns and by tokens."""

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.segment.turn_index import ROW, TurnIndex, index
from agentrl.types import Array, Batch


def accumulate(x, factor):
  """y_t = x_t + factor_t * y_{t+1} along the last axis, y past the end 0.

  Args:
    x: [..., T]
    factor: [..., T]; 0 stops the recursion after t.
  """

  def f(x, factor):
    def join(right, left):
      (a, y), (b, z) = right, left
      return a * b, z + b * y

    _, y = jax.lax.associative_scan(
      join, (factor, x), reverse=True, axis=x.ndim - 1
    )
    return y

  axes = ROW if x.ndim == 2 else None
  return mesh.auto(f, axes)(x, jnp.broadcast_to(factor, x.shape))


def accumulate_turns(x, factor, valid):
  """y_k = x_k + factor_k * y_{k+1} over the valid turns of [B, K].

  Valid turns of a trajectory are its first ones, or have gaps (another
  agent's turns): what is not valid is passed over and gets 0. Sums are
  compensated: with a factor of 1 their order does not matter.
  """
  return _accumulate_turns(x, factor, valid)[1]


def sum_turns(x, factor, valid):
  """x_0 + factor_0 (x_1 + factor_1 (...)) over the valid turns: [B].

  Compensated as in `accumulate_turns`; 0 for a trajectory without a turn.
  """
  return _accumulate_turns(x, factor, valid)[0]


def _accumulate_turns(x, factor, valid):
  """Returns y at the first valid turn [B], and at every turn [B, K]."""

  def f(x, factor, valid):
    def back(carry, now):
      y, rest = carry
      x, factor, valid = now
      whole, off = _two_sum(x, factor * y)
      rest = jnp.where(valid, factor * rest + off, rest)
      y = jnp.where(valid, whole, y)
      return (y, rest), jnp.where(valid, y + rest, 0)

    xs = [jnp.swapaxes(a, 0, 1) for a in (x, factor, valid)]
    zero = jnp.zeros_like(xs[0][0])
    (y, rest), ys = jax.lax.scan(back, (zero, zero), xs, reverse=True)
    return y + rest, jnp.swapaxes(ys, 0, 1)

  factor = jnp.broadcast_to(factor, x.shape)
  return mesh.auto(f, None)(x, factor, valid)


def _two_sum(a, b):
  """Returns rounded a + b, and what rounding left out (Knuth's TwoSum)."""
  whole = a + b
  part = whole - a
  off = (a - (whole - part)) + (b - part)
  return whole, jnp.where(jnp.isfinite(whole), off, 0)


def next_turn(x, valid):
  """Returns x at the trajectory's next valid turn, 0 after the last: [B, K]."""

  def f(x, valid):
    def back(carry, now):
      x, valid = now
      return jnp.where(valid, x, carry), jnp.where(valid, carry, 0)

    xs = [jnp.swapaxes(a, 0, 1) for a in (x, valid)]
    _, ys = jax.lax.scan(back, jnp.zeros_like(xs[0][0]), xs, reverse=True)
    return jnp.swapaxes(ys, 0, 1)

  return mesh.auto(f, None)(x, valid)


def last_turn(valid):
  """Marks the last valid turn of each trajectory: [B, K] bool."""
  return valid & (next_turn(valid.astype(jnp.int32), valid) == 0)


def previous_turn(x, valid):
  """Returns x at the valid turn before, 0 at the first: [B, K]."""
  back = next_turn(jnp.flip(x, 1), jnp.flip(valid, 1))
  return jnp.flip(back, 1)


def along_matches(f, match, moment, valid, *xs):
  """Applies f to the turns of all matches in the order they were played.

  Args:
    f: ([BK] bool, whether the next turn is one of the same match, *xs as [BK])
      -> [BK]; turns that are not valid come last and follow nobody
    match: [B] i32, equal for the trajectories of one match
    moment: [B, K], different for the valid turns of one match
    valid: [B, K] bool
    xs: [B, K] each
  Returns: [B, K], 0 where not valid
  """

  def run(match, moment, valid, *xs):
    match = jnp.broadcast_to(match[:, None], valid.shape)
    keys = moment, match, ~valid  # the last one counts most
    order = jnp.lexsort([a.reshape(-1) for a in keys])
    match, there, *xs = (a.reshape(-1)[order] for a in (match, valid, *xs))
    follows = there & jnp.roll(there, -1) & (match == jnp.roll(match, -1))
    follows &= jnp.arange(len(order)) < len(order) - 1
    y = jnp.where(there, f(follows, *xs), 0)
    return jnp.zeros_like(y).at[order].set(y).reshape(valid.shape)

  return mesh.auto(run, None)(match, moment, valid, *xs)


def roll_turns(x, shift, mask):
  """Rolls x by `shift` masked turns of its trajectory, in a circle: [B, K].

  Args:
    x: [B, K]; where the mask is off it stays as it is
    shift: [B, 1] i32
    mask: [B, K] bool
  """

  def f(x, shift, mask):
    count = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
    place = jnp.cumsum(mask, axis=1) - 1  # which of the masked turns
    at = jnp.argsort(~mask, axis=1, stable=True)  # where that one stands
    source = jnp.take_along_axis(at, (place - shift) % count, axis=1)
    return jnp.where(mask, jnp.take_along_axis(x, source, axis=1), x)

  return mesh.auto(f, None)(x, shift, mask)


def next_token(x, mask, index: TurnIndex, valid):
  """Returns x at the trajectory's next masked token, in whatever row it is.

  Args:
    x: [N, T]
    mask: [N, T] bool, the sampled tokens
    index: of the rows
    valid: [B, K] bool
  Returns: [N, T], 0 after a trajectory's last token.
  """
  start, end = index.bounds(mask)
  has = index.to_turns(mask.astype(jnp.float32)) > 0
  first = index.at_turns(x, start)
  after = index.to_tokens(next_turn(first, valid & has))
  inside = jnp.concatenate([x[:, 1:], jnp.zeros_like(x[:, :1])], axis=1)
  return jnp.where(mask, jnp.where(end, after, inside), 0)


def accumulate_tokens(x, factor: float, mask, index: TurnIndex, valid):
  """y_t = x_t + factor * y_{next token of the trajectory}; 0 off the mask.

  Two levels, so that rows may split a trajectory between turns: inside each
  turn first, then over [B, K] with factor^(tokens of the turn), then back.
  Arguments as in `next_token`.
  """
  start, end = index.bounds(mask)
  inner = jnp.where(mask & ~end, factor, 0.0).astype(x.dtype)
  local = accumulate(jnp.where(mask, x, 0), inner)
  left = accumulate(mask.astype(x.dtype), (mask & ~end).astype(x.dtype))
  power = jnp.asarray(factor, x.dtype)
  length = index.at_turns(left, start)
  first = index.at_turns(local, start)
  carried = accumulate_turns(first, power**length, valid & (length > 0))
  later = index.to_tokens(next_turn(carried, valid & (length > 0)))
  return jnp.where(mask, local + power**left * later, 0)


def prefix_sum(x, mask, index: TurnIndex, valid):
  """Sums x over the trajectory's masked tokens up to here: [N, T].

  In whatever rows they stand; 0 off the mask. Arguments as in `next_token`.
  """
  x = jnp.where(mask, x, 0)
  whole = jnp.where(valid, index.to_turns(x), 0)
  whole = jnp.sum(whole, axis=1, keepdims=True)
  whole = index.to_tokens(jnp.broadcast_to(whole, valid.shape))
  rest = accumulate_tokens(x, 1.0, mask, index, valid)
  return jnp.where(mask, whole - rest + x, 0)


def future_ratios(
  log_rho: Array, batch: Batch, *, gamma: float, clip: float
) -> Array:
  """Ω_t = clip(Π_{j > t} ρ_j^(γ^(j−t)), 1 ± clip), not differentiated: [N, T].

  j runs over the sampled tokens of the trajectory; 1 after the last. How much
  likelier what follows a token has become (APPO, 2606.12384; its code counts
  the token itself, too).

  Args:
    log_rho: [N, T] nats
    gamma: discount of later tokens, per token
    clip: how far Ω may be from 1; inf: any
  """
  sampled = batch.rows.sampled
  to_go = accumulate_tokens(
    log_rho, gamma, sampled, index(batch), batch.turns.valid
  )
  later = jnp.where(sampled, to_go - log_rho, 0)
  omega = jnp.clip(jnp.exp(jnp.clip(later, -20, 20)), 1 - clip, 1 + clip)
  return jax.lax.stop_gradient(omega)
