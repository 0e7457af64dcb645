"""Rewards for how many tokens a trajectory took."""

from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs


@registry.register('reward', needs=('term:tokens',))
def overlong(
  x: RewardInputs,
  *,
  limit: domain.Count = 16,
  margin: Annotated[int, domain.Whole(1, most='limit')] = 4,
  scale: domain.Number = 1.0,
) -> Array:
  """scale · clip((limit − margin − n) / margin, −1, 0)   (arXiv 2503.14476)

  On the last turn; n is how many tokens the policy sampled in all turns. Up
  to limit − margin of them cost nothing.

  Args:
    limit: tokens from which on the whole penalty is due
    margin: tokens before it over which it rises
    scale: the whole penalty
  """
  chex.assert_rank(x.turns.valid, 2)
  tokens = jnp.where(x.turns.valid, x.turns.terms['tokens'], 0)
  n = jnp.sum(tokens, axis=1, keepdims=True)
  penalty = jnp.clip((limit - margin - n) / margin, -1, 0)
  return jnp.where(trajectory.last_turn(x.turns), scale * penalty, 0.0)
