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

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import group_stats, returns
from agentrl.domain import Discount, Named
from agentrl.types import Array, Linked, LinkInputs

_NEEDS: dict[str, Any] = {
  'needs': ('signal:value',),
  'gives': ('target:value', 'along_turns'),
}


@registry.register('link', takes='any', leaves='token', **_NEEDS)
def gae_tokens(
  x: LinkInputs, *, gamma: Discount = 1.0, lam: Discount = 0.95
) -> Linked:
  """Returns A_t over the sampled tokens of a trajectory.

  r_t is the token's own value in the stream, plus the turn's at its last
  sampled token.

  Args:
    gamma: discount per token
    lam: λ per token: 0 trusts the value, 1 the return
  """
  turns = x.batch.turns.valid
  return _over_tokens(x, returns.at_ends(x), turns, gamma=gamma, lam=lam)


@registry.register('link', **_NEEDS)
def gae_turns(
  x: LinkInputs, *, gamma: Discount = 1.0, lam: Discount = 0.95
) -> Linked:
  """Returns A_k over turns; V_k is the value at the turn's first sampled token.

  All tokens of a turn share A_k; the value is regressed at the first.

  Args:
    gamma: discount per turn
    lam: λ per turn: 0 trusts the value, 1 the return
  """
  chain = functools.partial(ops.gae_turns, gamma=gamma, lam=lam)
  return _over_turns(x, lambda v, has: chain(x.credit.turn, v, has))


@registry.register(
  'link',
  needs=(*_NEEDS['needs'], 'term:{moment}', 'column:match'),
  gives=_NEEDS['gives'],
)
def gae_match(
  x: LinkInputs,
  *,
  gamma: Discount = 0.99,
  lam: Discount = 0.95,
  moment: Named = 'moment',
) -> Linked:
  """Returns A over the turns of a match, in the order they were played (MARFT).

    δ_m = r_m + γ V_{m+1} − V_m;   A_m = δ_m + γ λ A_{m+1}

  m counts the turns of a match over all of its seats, as they were played, and
  r_m is what the seat of that turn earned by it. So what one seat earns is
  credit of those who spoke before it. V_m is the value at the turn's first
  sampled token, where it is regressed.

  Args:
    gamma: discount per turn of the match
    lam: λ per turn of the match: 0 trusts the value, 1 the return
    moment: the term that orders the turns of a match
  """
  counted = group_stats.counted(x.batch, 'trajectory')

  def chain(v, has):
    return ops.gae_match(
      x.credit.turn,
      v,
      x.batch.ids['match'],
      x.batch.turns.terms[moment],
      has & counted,
      gamma=gamma,
      lam=lam,
    )

  return _over_turns(x, chain)


@registry.register('link', leaves='token', **_NEEDS)
def gae_bilevel(
  x: LinkInputs,
  *,
  gamma: Discount = 0.95,
  lam: Discount = 1.0,
  token_gamma: Discount = 1.0,
  token_lam: Discount = 1.0,
) -> Linked:
  """Turns first, then the tokens of each turn by themselves (VAGEN, RAGEN).

  With V_k the value at the turn's last sampled token: A_k by γ, λ over turns;
  then A_k + V_k is the reward of that token and A_t runs by the token γ, λ
  inside the turn, with nothing beyond its end. A turn without reward is a
  boundary as well; the released code takes non-zero rewards for boundaries.

  Args:
    gamma: discount per turn
    lam: λ per turn: 0 trusts the value, 1 the return
    token_gamma: discount per token, inside a turn
    token_lam: λ per token, inside a turn
  """
  rows, value = x.batch.rows, x.signals['value']
  index = segment.index(x.batch)
  _, last = index.bounds(rows.sampled)
  v = index.at_turns(value, last)
  has = returns.sampled_turns(x.batch)
  turn = ops.gae_turns(x.credit.turn, v, has, gamma=gamma, lam=lam) + v
  reward = jnp.where(last, index.to_tokens(turn), 0)
  alone = jnp.zeros_like(x.batch.turns.valid)  # no turn follows another
  return _over_tokens(x, reward, alone, gamma=token_gamma, lam=token_lam)


def _over_turns(
  x: LinkInputs, chain: Callable[[Array, Array], Array]
) -> Linked:
  """Chains A [B, K] of V at first sampled tokens, where it is regressed.

  Args:
    chain: (V, which turns have a sampled token), [B, K] each -> A
  """
  index, value = segment.index(x.batch), x.signals['value']
  first, _ = index.bounds(x.batch.rows.sampled)
  v = index.at_turns(value, first)
  a = chain(v, returns.sampled_turns(x.batch))
  target = index.to_tokens(a + v)
  mask = group_stats.counted(x.batch, 'trajectory')
  credit, metrics = _regress(x, x.credit.token, target, first)
  return credit.replace(turn=jnp.where(mask, a, 0)), metrics


def _over_tokens(
  x: LinkInputs, reward, turns, *, gamma: float, lam: float
) -> Linked:
  """Chains A_t of rewards [N, T] over the tokens of `turns` [B, K]."""
  value, rows = x.signals['value'], x.batch.rows
  a = ops.gae_tokens(
    reward,
    value,
    rows.sampled,
    rows.traj,
    rows.turn,
    turns,
    gamma=gamma,
    lam=lam,
  )
  return _regress(x, a, a + value, rows.sampled)


def _regress(x: LinkInputs, a, target, where) -> Linked:
  """Returns credit with tokens a, and a target [N, T] at the tokens `where`."""
  mask = group_stats.counted(x.batch, 'trajectory')
  mask = segment.index(x.batch).to_tokens(mask)
  credit = returns.regress(x, 'value', target, where)
  target, weight = credit.target['value'], credit.target['value.weight']
  metrics = {'return': (jnp.sum(target * weight), jnp.sum(weight))}
  return returns.as_tokens(credit, jnp.where(mask, a, 0)), metrics
