"""Generalised advantage estimation over tokens, turns, and both.

  δ_t = r_t + γ V_{t+1} − V_t;   A_t = δ_t + γ λ A_{t+1}        (1506.02438)

signals['value'] [N, T] is the value before the token was chosen. Only sampled
tokens are steps: what the environment wrote is passed over, neither a step
nor an end. Beyond a trajectory's last step V and A are 0, also where a limit
cut it short: a truncated trajectory is not bootstrapped.

Every link writes what the value should predict, A + V before any whitening,
and where: target['value'] and target['value.weight'], both [N, T]. A
trajectory with a turn whose judge failed gets no credit and no target.
"""

import chex
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.advantage import group_stats, returns
from agentrl.types import Array, Batch, Credit, Metrics, Signals

Linked = tuple[Credit, Metrics]

_NEEDS = {'needs': ('signal:value',), 'gives': ('target:value',)}


@registry.register('link', takes='any', leaves='token', **_NEEDS)
def gae_tokens(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
  lam: domain.Discount = 0.95,
) -> Linked:
  """A_t over the sampled tokens of a trajectory.

  r_t is the token's own value in the stream, plus the turn's at its last
  sampled token.
  """
  value, turns = signals['value'], batch.turns.valid
  reward = returns.at_ends(credit, batch)
  a = _over_tokens(reward, value, batch, turns, gamma, lam)
  return _regress(credit, batch, a, a + value, batch.rows.sampled)


@registry.register('link', **_NEEDS)
def gae_turns(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 1.0,
  lam: domain.Discount = 0.95,
) -> Linked:
  """A_k over turns; V_k is the value at the turn's first sampled token.

  All tokens of a turn share A_k; the value is regressed at the first.
  """
  rows, value = batch.rows, signals['value']
  first, _ = segment.bounds(rows.sampled, rows.traj, rows.turn)
  v = _at(value, first, batch)
  a = _over_turns(credit.turn, v, batch, gamma, lam)
  target = segment.to_tokens(a + v, rows.traj, rows.turn)
  known = group_stats.counted(batch, 'trajectory')
  credit, metrics = _regress(credit, batch, credit.token, target, first)
  return credit.replace(turn=jnp.where(known, a, 0)), metrics


@registry.register('link', leaves='token', **_NEEDS)
def gae_bilevel(
  credit: Credit,
  batch: Batch,
  signals: Signals,
  *,
  gamma: domain.Discount = 0.95,
  lam: domain.Discount = 1.0,
  token_gamma: domain.Discount = 1.0,
  token_lam: domain.Discount = 1.0,
) -> Linked:
  """Turns first, then the tokens of each turn by themselves (VAGEN, RAGEN).

  With V_k the value at the turn's last sampled token: A_k by γ, λ over turns;
  then A_k + V_k is the reward of that token and A_t runs by the token γ, λ
  inside the turn, with nothing beyond its end. A turn without reward is a
  boundary as well; the released code takes non-zero rewards for boundaries.
  """
  rows, value = batch.rows, signals['value']
  _, last = segment.bounds(rows.sampled, rows.traj, rows.turn)
  v = _at(value, last, batch)
  turn = _over_turns(credit.turn, v, batch, gamma, lam) + v
  reward = jnp.where(last, segment.to_tokens(turn, rows.traj, rows.turn), 0)
  alone = jnp.zeros_like(batch.turns.valid)  # no turn follows another
  a = _over_tokens(reward, value, batch, alone, token_gamma, token_lam)
  return _regress(credit, batch, a, a + value, rows.sampled)


def _over_tokens(reward, value, batch: Batch, turns, gamma, lam) -> Array:
  """A_t [N, T] over sampled tokens; `turns` [B, K] are linked to the next."""
  chex.assert_equal_shape([reward, value])
  rows = batch.rows
  ids = (rows.sampled, rows.traj, rows.turn, turns)
  delta = reward + gamma * segment.next_token(value, *ids) - value
  return segment.accumulate_tokens(delta, gamma * lam, *ids)


def _over_turns(reward, value, batch: Batch, gamma, lam) -> Array:
  """A_k [B, K] over the turns that have sampled tokens."""
  chex.assert_equal_shape([reward, value])
  has = returns.sampled_turns(batch)
  delta = reward + gamma * segment.next_turn(value, has) - value
  return segment.accumulate_turns(delta, gamma * lam, has)


def _at(value, pick, batch: Batch) -> Array:
  """The value at the picked token of each turn: [B, K]."""
  b, k = batch.turns.valid.shape
  return segment.at_turns(value, pick, batch.rows.traj, batch.rows.turn, b, k)


def _regress(credit: Credit, batch: Batch, a, target, where) -> Linked:
  """Credit with tokens a, and the target [N, T] at the tokens `where`."""
  rows = batch.rows
  known = group_stats.counted(batch, 'trajectory')
  known = segment.to_tokens(known, rows.traj, rows.turn)
  weight = jnp.where(known & where, rows.weight, 0)
  target = {
    'value': jnp.where(weight > 0, target, 0),
    'value.weight': weight,
  }
  metrics = {'return': (jnp.sum(target['value'] * weight), jnp.sum(weight))}
  credit = returns.as_tokens(
    credit, jnp.where(known, a, 0), target=credit.target | target
  )
  return credit, metrics
