"""HAE: advantages of actions, of subgoals, and of changing the subgoal.

HiPER (2602.16165). Every message says whether it keeps its subgoal or
switches, the subgoal, and an action. A segment starts at a trajectory's first
turn and wherever term 'switch' is not 0; b is where the next one starts.

  q_k   = r_k + γ q_k+1, within the segment; at its last turn r_k + γ V_high(b)
  low     δ_k = r_k + γ V' − V_low(k), λ inside the segment; V' is V_low(k+1),
          at the segment's last turn V_high(b)
  high    A_b = q_b − V_high(b) + γ^d λ_seg A_b', d turns long
  switch  A_k = q_k − V_switch(k)

Beyond a trajectory's end V and A are 0, also where a limit cut it short. The
three are normalised over the turns they are about, each by itself, and given
to the tokens they are about: actions, subgoals that start a segment, and
switches. Values are read, and regressed on the targets before normalising,
at a turn's first sampled token.
"""

from typing import NamedTuple

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.advantage import normalize, returns, statistics
from agentrl.types import Array, Batch, Credit, Metrics, Signals, Span

Linked = tuple[Credit, Metrics]


class Segments(NamedTuple):
  """[B, K] bool: turns that count, that start, and that end a segment."""

  has: Array
  start: Array
  end: Array  # another segment of the trajectory follows


def segments(batch: Batch) -> Segments:
  """Where the subgoals change; the first sampled turn always starts."""
  has = returns.sampled_turns(batch)
  before = jnp.cumsum(has.astype(jnp.int32), axis=1) - has
  start = has & ((batch.turns.terms['switch'] != 0) | (before == 0))
  end = has & (segment.next_turn(start.astype(jnp.int32), has) > 0)
  return Segments(has, start, end)


def to_go(reward: Array, v_high: Array, s: Segments, gamma: float) -> Array:
  """q [B, K]: the rest of the segment, and what follows by V_high."""
  chex.assert_equal_shape([reward, v_high, s.has])
  after = jnp.where(s.end, segment.next_turn(v_high, s.has), 0)
  factor = jnp.where(s.end, 0, gamma)
  return segment.accumulate_turns(reward + gamma * after, factor, s.has)


def low(
  reward: Array, v_low: Array, v_high: Array, s: Segments, gamma, lam
) -> Array:
  """A [B, K] of actions: GAE inside each segment."""
  chex.assert_equal_shape([reward, v_low, v_high, s.has])
  after = jnp.where(
    s.end, segment.next_turn(v_high, s.has), segment.next_turn(v_low, s.has)
  )
  delta = reward + gamma * after - v_low
  factor = jnp.where(s.end, 0, gamma * lam)
  return segment.accumulate_turns(delta, factor, s.has)


def high(reward: Array, v_high: Array, s: Segments, gamma, lam) -> Array:
  """A [B, K] of subgoals, at the turns that start a segment, else 0."""
  q = to_go(reward, v_high, s, gamma)
  delta = jnp.where(s.start, q - v_high, 0)
  factor = gamma * jnp.where(s.start, lam, 1)
  a = segment.accumulate_turns(delta, factor, s.has)
  return jnp.where(s.start, a, 0)


def _needs(name: str, span: str) -> dict:
  values = {name, 'high'}
  return {
    'needs': ('term:switch', f'span:{span}',
              *(f'signal:{v}' for v in sorted(values))),
    'gives': (f'target:{name}',),
    'leaves': 'token',
  }  # fmt: skip


@registry.register('link', **_needs('low', 'call'))
def hae_low(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
  lam: domain.Discount = 1.0,
) -> Linked:
  """The normalised advantage of actions, on the tokens of the action."""
  s = segments(batch)
  v, v_high = (_first(signals[name], batch) for name in ('low', 'high'))
  a = low(credit.turn, v, v_high, s, gamma, lam)
  return _assign(credit, batch, 'low', a, a + v, s.has, Span.CALL)


@registry.register('link', **_needs('high', 'subgoal'))
def hae_high(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
  lam: domain.Discount = 0.95,
) -> Linked:
  """The normalised advantage of subgoals, on those that start a segment.

  Args:
    lam: per segment
  """
  s, v = segments(batch), _first(signals['high'], batch)
  a = high(credit.turn, v, s, gamma, lam)
  return _assign(credit, batch, 'high', a, a + v, s.start, Span.SUBGOAL)


@registry.register('link', **_needs('switch', 'switch'))
def hae_switch(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
) -> Linked:
  """The normalised advantage of keeping or switching, on that token."""
  s = segments(batch)
  v, v_high = (_first(signals[name], batch) for name in ('switch', 'high'))
  q = to_go(credit.turn, v_high, s, gamma)
  return _assign(credit, batch, 'switch', q - v, q, s.has, Span.SWITCH)


def _first(value: Array, batch: Batch) -> Array:
  """The value at the first sampled token of each turn: [B, K]."""
  rows = batch.rows
  b, k = batch.turns.valid.shape
  first, _ = segment.bounds(rows.sampled, rows.traj, rows.turn)
  return segment.at_turns(value, first, rows.traj, rows.turn, b, k)


def _assign(
  credit: Credit, batch: Batch, name: str, a, target, turns, span: Span
) -> Linked:
  """White a on the span's tokens; targets at the first tokens of `turns`."""
  rows = batch.rows
  turns &= statistics.counted(batch, 'trajectory')
  white, metrics = statistics.on_turns(
    normalize.white,
    credit.replace(turn=a),
    batch,
    by=(),
    unit='turn',
    where=turns,
  )
  first, _ = segment.bounds(rows.sampled, rows.traj, rows.turn)
  there = first & segment.to_tokens(turns, rows.traj, rows.turn)
  weight = jnp.where(there, rows.weight, 0)
  goal = segment.to_tokens(target, rows.traj, rows.turn)
  token = segment.to_tokens(white.turn, rows.traj, rows.turn)
  token = jnp.where(rows.sampled & (rows.span == span), token, 0)
  targets = {name: jnp.where(weight > 0, goal, 0), f'{name}.weight': weight}
  credit = returns.as_tokens(credit, token, target=credit.target | targets)
  return credit, metrics
