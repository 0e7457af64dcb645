"""Compositions of terms: sums with weights, behind gates, or one of two."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import Name, Named, NotNegative, Real, Tuple
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs

Terms = Annotated[tuple[str, ...], Tuple(Name('a term'), least=1)]
Weights = Annotated[tuple[float, ...], Tuple(Real(), like='terms')]


@registry.register('reward', needs=('term:*terms',))
def weighted(
  x: RewardInputs, *, terms: Terms = ('outcome',), weights: Weights = (1.0,)
) -> Array:
  """r_k = Σ_f w_f x_{f,k}

  Each term on the turn that it is of; `outcome`, the task's own score, on the
  last turn. The format, retrieval, reasoning and answer rewards of a search
  agent are such a sum.

  Args:
    terms: names of terms, or 'outcome'
    weights: w of each
  """
  reward = jnp.zeros(x.turns.valid.shape)
  for name, weight in zip(terms, weights, strict=True):
    if name == registry.OUTCOME:
      value = trajectory.at_last_turn(x.outcome, x.turns)
    else:
      value = jnp.where(x.turns.valid, x.turns.terms[name], 0)
    reward += weight * value
  return reward


@registry.register('reward', needs=('term:*terms', 'term:*gates'))
def gated_or_penalty(
  x: RewardInputs,
  *,
  terms: Terms = ('outcome',),
  weights: Weights = (1.0,),
  gates: Annotated[tuple[str, ...], Tuple(Name('a term'))] = ('invalid',),
  scales: Annotated[tuple[float, ...], Tuple(Real(), like='gates')] = (-1.0,),
  thresholds: Annotated[tuple[float, ...], Tuple(Real(), like='gates')] = (
    0.0,
  ),
  penalty: NotNegative = 1.0,
) -> Array:
  """R = Σ_f w_f x_f where s_g y_g ≥ t_g for every gate g, else −penalty

  On the last turn; x and y are sums of terms over the turns of the trajectory.
  By default −1 for a trajectory with a message that was not understood, the
  format gate of Atom-Searcher (arXiv 2508.12800). With the outcome for a gate
  and no penalty it pays preferences, of prices or tools, to solutions alone.

  Args:
    terms: names of what is paid, or 'outcome'
    weights: w of each
    gates: names of terms that have to hold, or 'outcome'
    scales: s_g, what the sum is multiplied by; below 0: the sum is at most −t
    thresholds: t_g, of each
    penalty: of a trajectory that a gate stops
  """
  passed = trajectory.passes(x, gates, scales, thresholds)
  reward = sum(
    weight * trajectory.total(name, x)
    for name, weight in zip(terms, weights, strict=True)
  )
  return trajectory.at_last_turn(jnp.where(passed, reward, -penalty), x.turns)


@registry.register('reward', needs=('term:{ruled}', 'term:{criterion}'))
def rule_or_criterion(
  x: RewardInputs, *, ruled: Named = 'ruled', criterion: Named = 'judged'
) -> Array:
  """R = outcome where the task has a rule, else x_criterion

  On the last turn; x is the sum of a term over the turns of the trajectory. A
  task whose answer a rule can check is paid by the task's own score, an open
  one by the criteria of a judge, as the router of TableGPT-R1 does it.

  Args:
    ruled: the term that is above 0 on a turn of tasks with a rule
    criterion: the term of the judge
  """
  has, judged = (trajectory.total(name, x) for name in (ruled, criterion))
  return trajectory.at_last_turn(jnp.where(has > 0, x.outcome, judged), x.turns)
