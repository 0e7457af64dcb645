"""Rewards for what a trajectory took: tokens, calls, seconds, money."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import NOT_NEGATIVE, Chance, Name, Tuple, Width
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs


@registry.register('reward', needs=('term:*terms',))
def priced(
  x: RewardInputs,
  *,
  terms: Annotated[tuple[str, ...], Tuple(Name('a term'), least=1)] = (
    'tokens',
  ),
  prices: Annotated[tuple[float, ...], Tuple(NOT_NEGATIVE, like='terms')] = (
    0.001,
  ),
  cap: Width = 0.8,
  due_from: Chance = 1.0,
) -> Array:
  """R = −1[outcome ≥ τ] min(cap, Σ_k price_k x_k)

  On the last turn; x_k is the sum of a term over the turns of the trajectory.
  Beside `outcome` in c.reward it is the priced reward of ToolOrchestra (arXiv
  2511.21689), there of money and seconds and due from everybody, τ = 0. With
  τ = 1 a failure pays nothing, so that giving up early is not cheaper; with
  cap < 1 a solution then always earns more than a failure.

  Args:
    terms: names of what is paid for
    prices: of one unit of each
    cap: the most that a trajectory pays
    due_from: τ, the lowest outcome that pays; 0: all pay
  """
  bill = sum(
    price * trajectory.total(name, x)
    for name, price in zip(terms, prices, strict=True)
  )  # [B]
  due = trajectory.reaches(x.outcome, due_from)
  reward = jnp.where(due, -jnp.minimum(bill, cap), 0.0)
  return trajectory.at_last_turn(reward, x.turns)
