"""Gated rewards: what comes later pays only where what comes before holds.

A gate that nobody of a group passes is a plateau: all members earn the same,
and group-relative advantages are 0. Look at the terms of a batch first.
"""

from typing import Annotated

import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import UNIT, Chance, Dominant, Name, Real, Tuple
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs


@registry.register('reward', needs=('term:invalid', 'term:*quality'))
def ladder(
  x: RewardInputs,
  *,
  quality: Annotated[tuple[str, ...], Tuple(Name('a term'), least=1)] = (
    'outcome',
  ),
  some_parsed: Annotated[float, Real(0, 1, most='all_parsed')] = 0.1,
  all_parsed: Chance = 0.2,
) -> Array:
  """R = 0, r_some or r_all + (1 − r_all) clip(Q, 0, 1)

  On the last turn: 0 if no message was understood, r_some if some were, the
  last if all were. The stages of Progressive Reward Shaping (arXiv 2512.07478),
  whose Q is the BLEU of a short answer and a judge's score of a long one.

  Args:
    quality: names of terms whose sums over the trajectory add up to Q;
      'outcome' is the task's own score
    some_parsed: r_some, if not all messages were understood
    all_parsed: r_all, if all were and the score is 0
  """
  wrong = x.turns.valid & (x.turns.terms['invalid'] > 0)
  some = jnp.any(x.turns.valid & ~wrong, axis=1)
  q = sum(trajectory.total(name, x) for name in quality)  # [B]
  score = all_parsed + (1 - all_parsed) * jnp.clip(q, 0, 1)
  failed = jnp.where(some, some_parsed, 0.0)
  reward = jnp.where(jnp.any(wrong, axis=1), failed, score)
  return trajectory.at_last_turn(reward, x.turns)


@registry.register('reward', needs=('term:*terms',))
def lexicographic(
  x: RewardInputs,
  *,
  terms: Annotated[tuple[str, ...], Tuple(Name('a term'), least=1)] = (
    'invalid',
    'outcome',
  ),
  scales: Annotated[tuple[float, ...], Tuple(Real(), like='terms')] = (
    -1.0,
    1.0,
  ),
  thresholds: Annotated[
    tuple[float, ...], Tuple(UNIT, like='terms', fewer=1)
  ] = (1.0,),
  weights: Annotated[tuple[float, ...], Dominant(like='terms')] = (0.6, 0.4),
) -> Array:
  """R = w₁ x₁ + 1[x₁ ≥ t₁] (w₂ x₂ + 1[x₂ ≥ t₂] (w₃ x₃ + ...))

  On the last turn, for terms in their order of importance. x_k in [0, 1] is a
  term's sum over the turns of the trajectory, times s_k, clipped; with s_k < 0
  it is what is left of 1: scale −0.01 makes 0.4 of 60 tokens. `outcome` is the
  task's own score. Who passes a gate earns more than who does not. Besides
  w_k > w_{k+1} + w_{k+2} + ...: where terms are 0 or 1, none is made up for by
  those after it, whatever the thresholds. OPTIAGENT: A Physics-Driven Agentic
  Framework for Automated Optical Design, whose terms are format, feasibility,
  accuracy and a judge.

  The gated hierarchy of ChatShopBuddy, g (w₁ + 1[c ≥ τ] (w₂ c + w₃ s + w₄ e)),
  is terms (g, c, s, e) with thresholds (1, τ, 0): a threshold of 0 holds
  nothing back. They agree where c is 0 or 1; below τ a graded c earns w₂ c
  here, and nothing there.

  Args:
    terms: names of terms, or 'outcome', the most important first
    scales: s_k, what the sum of a term is multiplied by; below 0: less is more
    thresholds: t_k, of each term but the last
    weights: w_k, each more than the sum of those after it
  """
  passed = jnp.ones(x.outcome.shape, bool)  # [B]
  reward = jnp.zeros(x.outcome.shape)  # [B]
  # Nothing comes after the last term: its threshold is any number.
  gates = zip(terms, scales, (*thresholds, 0.0), weights, strict=True)
  for name, scale, threshold, weight in gates:
    start = 1 if scale < 0 else 0
    value = start + scale * trajectory.total(name, x)
    value = jnp.clip(value, 0, 1)
    reward += jnp.where(passed, weight * value, 0)
    passed &= trajectory.reaches(value, threshold)
  return trajectory.at_last_turn(reward, x.turns)
