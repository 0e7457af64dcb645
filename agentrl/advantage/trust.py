"""Advantages by how far the label of a task can be trusted."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import domain, ops, registry, segment
from agentrl.advantage import chain
from agentrl.reward import trajectory
from agentrl.reward.proposals import Rate
from agentrl.types import Agent, Array, Batch, Linked, LinkInputs

Low = Annotated[float, domain.Real(0, 1, most='high')]


def of_trajectories(batch: Batch, of: str, low: float, high: float) -> Array:
  """Computes `ops.trust` of solvers by a term; 1 for others: [B] f32."""
  turns = batch.turns
  u = ops.trust(trajectory.sum_term(of, turns), low=low, high=high)
  return jnp.where(turns.agent[:, 0] == Agent.SOLVER, u, 1)


@registry.register('link', needs=('column:agent', 'term:{of}'), takes='any')
def scale_by_trust(
  x: LinkInputs,
  *,
  of: Rate = 'agreement',
  low: Low = 0.3,
  high: domain.Rate = 0.8,
  least: domain.Rate = 0.5,
) -> Linked:
  """A (least + (1 − least) u),  u = `ops.trust` of solvers, 1 of proposers.

  Ambiguity-dynamic policy optimization of Agent0 (arXiv 2511.16043): a label
  that few attempts agree on teaches less.

  Args:
    of: p: 'agreement' or 'solved', see the reward `proposing`
    low, high: p of no and of full trust
    least: factor of no trust
  """
  u = of_trajectories(x.batch, of, low, high)
  factor = least + (1 - least) * u
  index = segment.index(x.batch)
  token = x.credit.token * index.trajectories_to_tokens(factor)
  turns = jnp.broadcast_to(factor[:, None], x.credit.turn.shape)
  return chain.times(x.credit, turns).replace(token=token), {}
