"""HAE: advantages of actions, of subgoals, and of changing the subgoal.

HiPER (2602.16165). Every message says whether it keeps its subgoal or
switches, the subgoal, and an action. A segment starts at a trajectory's first
turn and wherever term 'switch' is not 0; b is where the next one starts.

  q_k   = r_k + γ q_k+1, within the segment; at its last turn r_k + γ V_high(b)
  low     δ_k = r_k + γ V' − V_low(k), λ inside the segment; V' is V_low(k+1),
          at the segment's last turn V_high(b)
  high    A_b = q_b − V_high(b) + γ^d λ_seg A_b', d turns long
  switch  A_k = (s_k − β_k) (V_high(k) − V_low(k)), s_k = 1 where it switched,
          β_k the probability of that; the paper's equation, `hae_switch_gain`
          A_k = q_k − V_switch(k), what its released code has, `hae_switch`

Beyond a trajectory's end V and A are 0, also where a limit cut it short. The
three are normalised over the turns they are about, each by itself, and given
to the tokens they are about: actions, subgoals that start a segment, and
switches. Values are read, and regressed on the targets before normalising,
at a turn's first sampled token.
"""

from typing import NamedTuple

import chex
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import group_stats, returns
from agentrl.domain import Discount
from agentrl.types import Array, Batch, Credit, Linked, LinkInputs, Span


class Segments(NamedTuple):
  """[B, K] bool: turns that count, that start, and that end a segment."""

  has: Array
  start: Array
  end: Array  # another segment of the trajectory follows


def segments(batch: Batch) -> Segments:
  """Finds segments of equal subgoal; the first sampled turn starts one."""
  has = returns.sampled_turns(batch)
  before = jnp.cumsum(has.astype(jnp.int32), axis=1) - has
  start = has & ((batch.turns.terms['switch'] != 0) | (before == 0))
  end = has & (segment.next_turn(start.astype(jnp.int32), has) > 0)
  return Segments(has, start, end)


def to_go(reward: Array, v_high: Array, s: Segments, gamma: float) -> Array:
  """Returns q [B, K]: the rest of the segment, and what follows by V_high."""
  chex.assert_equal_shape([reward, v_high, s.has])
  after = jnp.where(s.end, segment.next_turn(v_high, s.has), 0)
  factor = jnp.where(s.end, 0, gamma)
  return segment.accumulate_turns(reward + gamma * after, factor, s.has)


def low(
  reward: Array, v_low: Array, v_high: Array, s: Segments, gamma, lam
) -> Array:
  """Returns A [B, K] of actions: GAE inside each segment."""
  chex.assert_equal_shape([reward, v_low, v_high, s.has])
  after = jnp.where(
    s.end, segment.next_turn(v_high, s.has), segment.next_turn(v_low, s.has)
  )
  delta = reward + gamma * after - v_low
  factor = jnp.where(s.end, 0, gamma * lam)
  return segment.accumulate_turns(delta, factor, s.has)


def high(reward: Array, v_high: Array, s: Segments, gamma, lam) -> Array:
  """Returns A [B, K] of subgoals, at the turns that start a segment, else 0."""
  q = to_go(reward, v_high, s, gamma)
  delta = jnp.where(s.start, q - v_high, 0)
  factor = gamma * jnp.where(s.start, lam, 1)
  a = segment.accumulate_turns(delta, factor, s.has)
  return jnp.where(s.start, a, 0)


def _needs(name: str, span: str) -> dict:
  signals = (f'signal:{x}' for x in sorted({name, 'high'}))
  return {
    'needs': ('term:switch', f'span:{span}', *signals),
    'gives': (f'target:{name}', 'along_turns'),
    'leaves': 'token',
  }


@registry.register('link', **_needs('low', 'call'))
def hae_low(
  x: LinkInputs, *, gamma: Discount = 1.0, lam: Discount = 1.0
) -> Linked:
  """Returns the normalised advantage of actions, on the tokens of the action.

  Args:
    gamma: discount per turn
    lam: λ per turn: 0 trusts the value, 1 the return
  """
  s = segments(x.batch)
  v, v_high = (_first(x.signals[name], x.batch) for name in ('low', 'high'))
  a = low(x.credit.turn, v, v_high, s, gamma, lam)
  credit = _regress(x, 'low', a + v, s.has)
  return _assign(x.replace(credit=credit), a, s.has, Span.CALL)


@registry.register('link', **_needs('high', 'subgoal'))
def hae_high(
  x: LinkInputs, *, gamma: Discount = 1.0, lam: Discount = 0.95
) -> Linked:
  """Returns the normalised advantage of subgoals, where they start a segment.

  Args:
    lam: per segment
    gamma: discount per turn
  """
  s, v = segments(x.batch), _first(x.signals['high'], x.batch)
  a = high(x.credit.turn, v, s, gamma, lam)
  credit = _regress(x, 'high', a + v, s.start)
  return _assign(x.replace(credit=credit), a, s.start, Span.SUBGOAL)


@registry.register('link', **_needs('switch', 'switch'))
def hae_switch(x: LinkInputs, *, gamma: Discount = 1.0) -> Linked:
  """Returns the normalised advantage of keeping or switching, on that token.

  Args:
    gamma: discount per turn
  """
  s = segments(x.batch)
  v, v_high = (_first(x.signals[name], x.batch) for name in ('switch', 'high'))
  q = to_go(x.credit.turn, v_high, s, gamma)
  credit = _regress(x, 'switch', q, s.has)
  return _assign(x.replace(credit=credit), q - v, s.has, Span.SWITCH)


@registry.register(
  'link',
  needs=(
    'term:switch',
    'span:switch',
    'signal:low',
    'signal:high',
    'signal:old_logp',
  ),
  gives=('along_turns',),
  leaves='token',
)
def hae_switch_gain(x: LinkInputs) -> Linked:
  """(s − β) (V_high − V_low), normalised, on the tokens of the decision.

  V_low is that of the subgoal so far: it is read before the decision. β comes
  from the log-prob of the decision that was sampled, as if there were two of
  them: it is its probability where it switched, and 1 less that where it did
  not. A first turn starts a segment in any case and has none.
  """
  rows, s = x.batch.rows, segments(x.batch)
  v, v_high = (_first(x.signals[name], x.batch) for name in ('low', 'high'))
  decision = rows.sampled & (rows.span == Span.SWITCH)
  logp = jnp.where(decision, x.signals['old_logp'], 0)
  p = jnp.exp(group_stats.turn_pool(x.batch).add(logp))
  a = switch_gain(x.batch.turns.terms['switch'] != 0, p, v_high - v)
  before = jnp.cumsum(s.has.astype(jnp.int32), axis=1) - s.has
  return _assign(x, a, s.has & (before > 0), Span.SWITCH)


def switch_gain(switched: Array, p: Array, gap: Array) -> Array:
  """Returns (s − β) (V_high − V_low) [B, K].

  Args:
    switched: bool
    p: probability of what was decided
    gap: V_high − V_low
  """
  chex.assert_equal_shape([switched, p, gap])
  return jnp.where(switched, 1 - p, p - 1) * gap


def _first(value: Array, batch: Batch) -> Array:
  """Returns the value at the first sampled token of each turn: [B, K]."""
  index = segment.index(batch)
  first, _ = index.bounds(batch.rows.sampled)
  return index.at_turns(value, first)


def _regress(x: LinkInputs, name: str, goal, turns) -> Credit:
  """Adds targets of the value `name` at the first tokens of the turns."""
  index = segment.index(x.batch)
  first, _ = index.bounds(x.batch.rows.sampled)
  goal, turns = index.to_tokens(goal), index.to_tokens(turns)
  return returns.regress(x, name, goal, first & turns)


def _assign(x: LinkInputs, a, turns, span: Span) -> Linked:
  """Whitens a over the turns and puts it on the tokens of the span."""
  rows = x.batch.rows
  turns &= group_stats.counted(x.batch, 'trajectory')
  white, metrics = group_stats.on_turns(
    ops.white,
    x.replace(credit=x.credit.replace(turn=a, size=None)),
    by=(),
    unit='turn',
    where=turns,
  )
  token = segment.index(x.batch).to_tokens(white.turn)
  token = jnp.where(rows.sampled & (rows.span == span), token, 0)
  return returns.as_tokens(x.credit, token), metrics
